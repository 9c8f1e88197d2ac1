"""A program called like ssh that is none: `STUB` in its environment says how it behaves, and what
it was called with, in what environment, and what it left behind, is added to the file `STUB_LOG`.

`fine` holds a connection at its socket and runs commands here; `keeps stderr` leaves a process
behind with its stderr; `background` goes on in the background; `exits` ends at once and well;
`hangs` never logs in; `fails` says why it cannot; `full` refuses every command; `dies` loses its
connection as soon as it is there.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

HOW = os.environ["STUB"]
GIVEN = sys.argv[1:]


def main() -> int:
    kept = ("LC_ALL", "SSH_ASKPASS_REQUIRE")
    note(argv=GIVEN, env={name: os.environ[name] for name in kept if name in os.environ})
    path = GIVEN[GIVEN.index("-S") + 1].replace("%%", "%")
    if "-O" in GIVEN:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            sock.sendall(b"exit")
        return 0
    if "-NT" in GIVEN:
        return hold(path)
    if HOW == "full":
        print("mux_client_request_session: session request failed: Refused", file=sys.stderr)
        return 255
    if HOW == "keeps stderr":
        leave_behind()
    return subprocess.run(GIVEN[GIVEN.index("--") + 1], shell=True).returncode


def hold(path: str) -> int:
    if HOW == "exits":
        return 0
    if HOW == "fails":
        print("stub: no route to host", file=sys.stderr)
        return 255
    if HOW == "hangs":
        time.sleep(600)
    if HOW == "keeps stderr":
        leave_behind()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    if HOW == "background" and os.fork():
        os._exit(0)
    if HOW == "background":
        os.setsid()
    if HOW == "dies":
        time.sleep(0.2)
        return 255
    signal.signal(signal.SIGTERM, lambda *_: os._exit(255))
    while True:
        said, _ = listener.accept()
        if said.recv(10):  # and not only a look
            os.unlink(path)
            os._exit(0)


def leave_behind() -> None:
    child = subprocess.Popen(
        ["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )
    note(left=child.pid)


def note(**what: object) -> None:
    with open(os.environ["STUB_LOG"], "a") as log:
        log.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    sys.exit(main())
