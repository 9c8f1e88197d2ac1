"""A stand-in for `craze serve`: it acts what a script tells it, with the standard library alone.

CRAZE_FAKE_PLAY names a directory: `script.json` there is a list of acts, one for each start in
turn, the last for all that follow. A start leaves `start-N.json` (its arguments, directory, pid and
environment) and `requests-N` (a line for each request) in it; its socket is in CRAZE_FAKE_SOCKETS.
An act may have

    ready    members that replace those of the ready line; a text in its place; null for no line
    close    the pipe is closed without a line, and the process stays
    hang     neither line nor end
    exit     it ends after its ready line, with this code
    session  the session it serves and claims; else the one it is to load, or session-N
    entry    members of its registry entry; null for no entry
    answers  method -> the answers to its requests in turn, the last for all that follow
    deaf     SIGTERM is ignored
    stay     it stays after a line that is not `ok`
    unbound  nothing listens at its socket
    agents   commands that it leaves running, each recorded as an agent's group
    remove   a file to remove before anything else
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

VERSION = "0.0.0-stand-in"


class Answers:
    """What each method is answered with, in turn."""

    def __init__(self, session: str, given: dict[str, Any]) -> None:
        usual: dict[str, Any] = {
            "hello": {"result": {"endpoint": {"kind": "host", "crazeVersion": VERSION}}},
            "session.attach": {"result": {"subscription": "s-7", "ready": True}},
            "sessions.list": {"result": {"sessions": [row(session)]}},
        }
        self._left = {name: [answer] for name, answer in usual.items()}
        self._left |= {
            name: list(answers) if isinstance(answers, list) else [answers]
            for name, answers in given.items()
        }

    def next(self, method: str) -> Any:
        """An object with `result` or `error`, or `silent`, `close`, `die`."""
        left = self._left.setdefault(method, [{"result": {}}])
        return left.pop(0) if len(left) > 1 else left[0]


def row(session: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": session, "activity": "idle", **more}


def refused(code: str, reason: str = "", message: str = "no", **data: Any) -> dict[str, Any]:
    """An answer that refuses."""
    told = {"code": code, "reason": reason or code, **data}
    return {"error": {"code": -32000, "message": message, "data": told}}


def reply(id: Any, answer: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, **answer}).encode() + b"\n"


def main() -> None:
    flags = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[2:])
    play = Path(os.environ["CRAZE_FAKE_PLAY"])
    number, act = _turn(play)
    if act.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "remove" in act:
        os.unlink(act["remove"])
    host_id = flags["host-id"]
    cache = Path(os.environ["HOME"], ".cache", "craze")
    started = {"arguments": sys.argv[1:], "cwd": os.getcwd(), "pid": os.getpid()}
    _put(play / f"start-{number}.json", {**started, "environment": dict(os.environ)})
    for command in act.get("agents", ()):
        agent = subprocess.Popen(command, start_new_session=True)
        _record(cache / "host-logs" / f"{host_id}.pgids", agent.pid)
    ready = int(os.environ["CRAZE_READY_FD"])
    if act.get("hang"):
        time.sleep(3600)
    if act.get("close"):
        os.close(ready)
        time.sleep(3600)
    load = flags.get("load", ":")
    session = act.get("session") or (load if ":" not in load else f"session-{number}")
    said = act.get("ready", {})
    path = f"{os.environ['CRAZE_FAKE_SOCKETS']}/{host_id}.sock"
    if isinstance(said, dict) and said.get("ok", True):
        holder = _lock(cache / "locks" / f"{session}.lock", host_id)
        if holder is not None:
            pid, host = holder
            held = {"hostId": host, "pid": pid, "crazeSessionId": session}
            said = {"ok": False, "error": "it is open in another craze", "held": held}
        else:
            listener = socket.socket(socket.AF_UNIX)
            if not act.get("unbound"):
                listener.bind(path)
                listener.listen()
            _lock(cache / "hosts" / f"{host_id}.lock", host_id)
            if act.get("entry", {}) is not None:
                _put(
                    cache / "hosts" / f"{host_id}.json", _entry(flags, act, host_id, session, path)
                )
            ok = {"ok": True, "hostId": host_id, "socket": path, "crazeSessionId": session}
            said = {**ok, "crazeVersion": VERSION, **said}
    if said is not None:
        line = said if isinstance(said, str) else json.dumps(said) + "\n"
        os.write(ready, line.encode())
    os.close(ready)
    if act.get("stay"):
        time.sleep(3600)
    if said is None or "exit" in act or isinstance(said, str) or not said["ok"]:
        os._exit(act.get("exit", 1))
    answers = Answers(session, act.get("answers", {}))
    while True:
        sock, _ = listener.accept()
        told = (play / f"requests-{number}").open("a", buffering=1)
        threading.Thread(target=_serve, args=(sock, answers, told), daemon=True).start()


def _turn(play: Path) -> tuple[int, dict[str, Any]]:
    acts: list[dict[str, Any]] = json.loads((play / "script.json").read_text())
    number = 0
    while True:
        try:
            (play / f"turn-{number}").open("x").close()
            return number, acts[min(number, len(acts) - 1)]
        except FileExistsError:
            number += 1


def _entry(
    flags: dict[str, str], act: dict[str, Any], host_id: str, session: str, path: str
) -> dict[str, Any]:
    return {
        "protocol": 1,
        "hostId": host_id,
        "pid": os.getpid(),
        "startedAt": "2026-01-01T00:00:00Z",
        "socket": path,
        "crazeSessionId": session,
        "provider": flags.get("provider", "grok"),
        "workspace": os.getcwd(),
        "ready": True,
        "requestId": flags.get("request-id", ""),
        "requestHash": flags.get("request-hash", ""),
        **act.get("entry", {}),
    }


def _record(path: Path, group: int) -> None:
    started = Path(f"/proc/{group}/stat").read_text().rpartition(")")[2].split()[19]
    with path.open("a") as file:
        file.write(f"{group} {started}\n")


def _lock(path: Path, host_id: str) -> tuple[int, str] | None:
    """Take a lock; who holds it, where it is held."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(20):  # a look holds it for an instant, and so does who was just killed
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.005)
    else:
        pid, host = os.read(fd, 256).decode().split()
        return int(pid), host
    os.ftruncate(fd, 0)
    os.write(fd, f"{os.getpid()} {host_id}\n".encode())
    return None


def _put(path: Path, members: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(members))
    temporary.rename(path)


def _serve(sock: socket.socket, answers: Answers, told: Any) -> None:
    with sock, told, sock.makefile("rb") as lines:
        for line in lines:
            request = json.loads(line)
            told.write(json.dumps([request["method"], request["params"]]) + "\n")
            answer = answers.next(request["method"])
            if answer == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if answer == "close":
                sock.shutdown(socket.SHUT_RDWR)
                return
            if answer == "silent":
                continue
            sock.sendall(reply(request["id"], answer))


if __name__ == "__main__":
    main()
