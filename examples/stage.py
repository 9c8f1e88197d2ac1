"""What the examples share: a machine of their own, a host on an agent, and two clients of it.

Everything happens under one temporary home, which is gone afterwards. A session is served as
`craze` serves any: `craze serve` runs the agent, one client dials its socket, the other one talks
through `craze bridge` on pipes, as it would over ssh.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from craze.client import Attachment, Client, ClientError, Program
from craze.wire.plain import plain_line

CRAZE = [sys.executable, "-P", "-m", "craze"]  # -P: a folder here called craze is none
READY = 30.0  # seconds for a host to say that it is ready
ENDED = 20.0  # seconds for it to be gone once it was stopped


class Stage:
    """A private home with a host in it, serving one session of `command`, an ACP agent, which has
    the variables of `env` besides the host's own."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        # Short, since a Unix socket's path may be no longer than 100 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="craze-demo-", dir="/tmp"))
        self._host: subprocess.Popen[bytes] | None = None
        self.work = self.root / "work"
        for folder in ("work", "home", "home/.craze", "run"):
            (self.root / folder).mkdir(mode=0o700)
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = keep | {
            "HOME": str(self.root / "home"),
            "CRAZE_RUNTIME_DIR": str(self.root / "run"),
        }
        variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
        config = f"""
            [providers.demo]
            label = "Demo"
            command = {json.dumps(command)}
            env = {{{variables}}}
        """
        (self.root / "home/.craze/config.toml").write_text(config)

    def serve(self) -> dict[str, Any]:
        """Start the host and return its ready line."""
        reading, writing = os.pipe()
        try:
            self._host = subprocess.Popen(
                [*CRAZE, "serve", "--provider=demo", "--no-force", f"--workspace={self.work}"],
                env=self.environment | {"CRAZE_READY_FD": str(writing), "CRAZE_HOST_CHILD": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[writing],
                start_new_session=True,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            if not select.select([pipe], [], [], READY)[0]:
                raise SystemExit(f"the host said nothing within {READY:g} s")
            ready: dict[str, Any] = json.loads(pipe.readline() or b'{"error":"the host exited"}')
        if not ready.get("ok"):
            raise SystemExit(f"the host did not start: {ready['error']}")
        return ready

    def bridge(self, session: str) -> Program:
        """A new bridge to the session, as the stream of a client."""
        return Program([*CRAZE, "bridge", "--session", session], self.environment)

    def gone(self) -> int:
        """Wait until the host has ended by itself: its exit code."""
        assert self._host is not None
        return self._host.wait(ENDED)

    def left(self) -> list[str]:
        """The command lines of what still runs in this home (where there is a /proc to ask)."""
        mark = f"CRAZE_RUNTIME_DIR={self.root}/run".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes()
                    found.append(words.replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # it has just gone, or is another user's
        return found

    def assert_empty(self) -> None:
        """Nothing of this home may run any more."""
        deadline = time.monotonic() + ENDED
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left, f"still running: {left}"

    def close(self) -> None:
        """End the host, if it still runs, and remove the home."""
        if self._host is not None and self._host.poll() is None:
            self._host.terminate()
            try:
                self._host.wait(ENDED)
            except subprocess.TimeoutExpired:
                self._host.kill()
                self._host.wait()
        shutil.rmtree(self.root)


class Seat:
    """One client, attached, and what it has seen."""

    def __init__(self, name: str, client: Client, attachment: Attachment) -> None:
        self.name, self.client, self.attachment = name, client, attachment
        self.seen: list[int] = []

    def until(self, kinds: tuple[str, ...], patience: float) -> dict[str, Any]:
        """Show events up to the first of one of `kinds` (an ended turn counts as `end`)."""
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            note = self.attachment.next(left)
            if note is None:
                break
            if note.method == "reset":
                self.say(f"reset: {note.params['reason']}")
                if "reset" in kinds:
                    return note.params
            if note.method != "event":
                continue
            event = note.params["event"]
            self.seen.append(note.params["seq"])
            self.say(f"{note.params['seq']:4}  {describe(event)}")
            if kind(event) in kinds:
                found: dict[str, Any] = event
                return found
        raise SystemExit(f"{self.name} waited {patience:g} s for {' or '.join(kinds)}")

    def say(self, words: str) -> None:
        print(f"  {self.name:>6} | {words}", flush=True)


def kind(event: dict[str, Any]) -> str:
    """An event's type, but `end` for the end of a turn."""
    ended = event["type"] == "turn" and event["turn"].get("phase") == "ended"
    return "end" if ended else event["type"]


def describe(event: dict[str, Any]) -> str:
    """One line for an event, in words."""
    name = event["type"]
    detail = {
        "text": lambda: [repr(event.get("text", ""))],
        "thought": lambda: [repr(event.get("text", ""))],
        "tool": lambda: [
            event["tool"].get("title") or event["tool"].get("name", ""),
            event["tool"].get("status", ""),
        ],
        "turn": lambda: [
            event["turn"]["id"], event["turn"]["phase"], event["turn"].get("stopReason", ""),
        ],
        "done": lambda: [event.get("stopReason", "")],
        "permission": lambda: [" / ".join(o["name"] for o in event["permission"]["options"])],
        "ask": lambda: [event["ask"]["id"], event["ask"].get("outcome", "")],
        "meta": lambda: [", ".join(event.get("state", {}))],
    }.get(name, lambda: [""])()  # fmt: skip
    # What an agent wrote never acts on a terminal.
    return f"{name:<11} {plain_line(' '.join(filter(None, detail)))}"[:100].rstrip()


def play(command: list[str], prompt: str, patience: float, env: Mapping[str, str]) -> None:
    """A session from its start to its stop; raises SystemExit or AssertionError if it goes wrong.

    `patience` is how many seconds the agent may take to start, and for one step of its turn.
    """
    stage = Stage(command, env)
    try:
        _play(stage, prompt, patience)
        stage.assert_empty()
        print("\nNothing is left running.")
    except ClientError as failure:
        raise SystemExit(f"\n{failure}") from None
    finally:
        stage.close()


def _play(stage: Stage, prompt: str, patience: float) -> None:
    ready = stage.serve()
    session = ready["crazeSessionId"]
    title("A host serves a session")
    print(f"  session {session}\n  socket  {ready['socket']}")

    title("Two clients attach: one to its socket, one through `craze bridge` on pipes")
    with Client(ready["socket"], name="demo") as client:
        direct = Seat("direct", client, client.attach(timeout=patience))
        remote = Client(lambda: stage.bridge(session), session=session, name="demo")
        try:
            bridge = Seat("bridge", remote, remote.attach(timeout=patience))
            for seat in (direct, bridge):
                after = seat.attachment.after
                assert after is not None
                seat.say(f"{seat.client.hello['clientId']}, from the snapshot at seq {after.seq}")

            title("A prompt, and what both see of the turn")
            direct.say(f"> {prompt}")
            direct.client.command("session.prompt", text=prompt, mode="queue")
            halfway = direct.until(("permission", "text", "end"), patience)
            bridge.until((kind(halfway),), patience)
        finally:
            remote.close()

        title("In mid-turn the bridge's client is gone; the session goes on")
        identity, cursor = remote.identity, bridge.attachment.cursor
        assert identity is not None
        assert cursor is not None
        bridge.say(f"gone, after seq {cursor.seq}")
        end = halfway
        while kind(end) != "end":
            if end["type"] == "permission":
                answer(direct, end["permission"])
            end = direct.until(("permission", "end"), patience)

        title("It comes back: the same client, from where it stood")
        with Client(
            lambda: stage.bridge(session), session=session, name="demo", resume=identity
        ) as again:
            bridge.client, bridge.attachment = again, again.attach(cursor=cursor)
            assert again.hello["resumed"] is True
            assert bridge.attachment.snapshot is None  # nothing had to be told anew
            bridge.say(f"{again.hello['clientId']} resumed, after seq {cursor.seq}")
            if kind(halfway) != "end":
                bridge.until(("end",), patience)
            both = [seq for seq in direct.seen if seq >= bridge.seen[0]]
            assert bridge.seen == both == list(range(both[0], both[-1] + 1))
            print(f"\n  Both saw the same {len(both)} events, each once and in order.")

            title("A stop, and both hear the end")
            direct.client.command("session.stop")
            for seat in (direct, bridge):
                assert seat.until(("reset",), patience)["reason"] == "session_closed"
    assert stage.gone() == 0


def answer(seat: Seat, permission: dict[str, Any]) -> None:
    """Allow what is asked, once."""
    options = permission["options"]
    chosen = next((o for o in options if o["kind"] == "allow_once"), options[0])
    seat.say(f"> {plain_line(chosen['name'])}")
    seat.client.command(
        "asks.answer", askId=permission["id"], answer={"optionId": chosen["optionId"]}
    )


def title(words: str) -> None:
    print(f"\n{words}\n")
