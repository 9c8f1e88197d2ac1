"""A process that takes everything off N connections as fast as it can, for the fan-out benchmark.

    python tests/bench/drain.py SOCKET CLIENTS LINES [SESSION]

With a SESSION it first says hello on each connection and attaches. It prints `ready` once all are
up, counts LINES line ends on each, prints `done` and ends. Standard library alone, so that the
reader costs the same in every run it takes part in.
"""

import json
import selectors
import socket
import sys

CHUNK = 1 << 18


def request(sock: socket.socket, number: int, method: str, params: dict) -> None:
    line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    sock.sendall(json.dumps(line).encode() + b"\n")


def connect(path: str, session: str) -> socket.socket:
    """A connection that has nothing more to say: every further line is an event."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    if session:
        request(sock, 1, "hello", {"protocols": [1], "client": {"kind": "bench"}})
        request(sock, 2, "session.attach", {"sessionId": session, "when": "now"})
        seen = b""
        while b'"synchronized"' not in seen or not seen.endswith(b"\n"):
            seen += sock.recv(CHUNK)
    return sock


def main() -> None:
    path, clients, lines = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    session = sys.argv[4] if len(sys.argv) > 4 else ""
    left = {}
    ready = selectors.DefaultSelector()
    for _ in range(clients):
        sock = connect(path, session)
        left[sock] = lines
        ready.register(sock, selectors.EVENT_READ)
    print("ready", flush=True)
    buffer = bytearray(CHUNK)
    while left:
        for key, _ in ready.select():
            sock = key.fileobj
            size = sock.recv_into(buffer)
            if not size:
                sys.exit(f"a connection ended with {left[sock]} lines owed")
            left[sock] -= buffer.count(b"\n", 0, size)
            if left[sock] <= 0:
                ready.unregister(sock)
                del left[sock]
                sock.close()
    print("done", flush=True)


if __name__ == "__main__":
    main()
