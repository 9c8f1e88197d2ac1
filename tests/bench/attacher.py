"""A client that attaches over and over, for the attach benchmark; prints the best in seconds.

python tests/bench/attacher.py SOCKET SESSION SNAPSHOT_BYTES
"""

import json
import socket
import sys
import time

ROUNDS = 5
CHUNK = 1 << 20


def request(sock: socket.socket, method: str, params: dict) -> None:
    line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    sock.sendall(json.dumps(line).encode() + b"\n")


def one_attach(path: str, session: str, size: int) -> float:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    request(sock, "hello", {"protocols": [1], "client": {"kind": "bench"}})
    while not sock.recv(CHUNK).endswith(b"\n"):
        continue
    buffer = bytearray(CHUNK)
    begun = time.perf_counter()
    budget = {"snapshotBytes": size}
    request(sock, "session.attach", {"sessionId": session, "when": "now", "budget": budget})
    while buffer.find(b"\n", 0, sock.recv_into(buffer) or sys.exit("the host hung up")) < 0:
        continue
    took = time.perf_counter() - begun
    sock.close()
    return took


def main() -> None:
    path, session, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(min(one_attach(path, session, size) for _ in range(ROUNDS)), flush=True)


if __name__ == "__main__":
    main()
