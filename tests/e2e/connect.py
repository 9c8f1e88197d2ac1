"""A ProxyCommand: `connect.py HOST PORT` is that port on stdin and stdout."""

import os
import socket
import sys
import threading


def copy(read, write) -> None:
    while data := read():
        write(data)


if __name__ == "__main__":
    sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    threading.Thread(
        target=copy, args=(lambda: os.read(0, 65536), sock.sendall), daemon=True
    ).start()
    copy(lambda: sock.recv(65536), lambda data: os.write(1, data))
