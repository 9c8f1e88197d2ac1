"""What the examples share: a machine of their own, its hub, a session on an agent, and two clients.

Everything happens under one temporary home, which is gone afterwards. Nothing is started by hand
but `craze bridge`, on pipes, as it would be over ssh: the first one with `--hub` starts the
machine's hub, and the hub starts the session.
"""

import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from craze.client import Attachment, Client, ClientError, Program, Roster, splice
from craze.wire.plain import plain_line

CRAZE = [sys.executable, "-P", "-m", "craze"]  # -P: a folder here called craze is none
ENDED = 20.0  # seconds for everything to be gone once it was stopped


class Stage:
    """A private home where `command`, an ACP agent, is the provider `demo`; it has the variables of
    `env` besides its host's own."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        # Short, since a Unix socket's path may be no longer than 100 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="craze-demo-", dir="/tmp"))
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
        self._config = self.root / "home/.craze/config.toml"
        self._config.write_text(config)
        # Where a lane's machine is looked at first.
        self._script("home/.local/bin/craze", CRAZE)

    def _script(self, path: str, command: list[str]) -> str:
        """Make a script that runs `command` with whatever it is given besides; its path."""
        script = self.root / path
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o700)
        return str(script)

    def take_for_cursor(self, command: list[str]) -> None:
        """Have `command` be cursor's agent here, for sessions that are created from now on."""
        agent = self._script("cursor-agent", command)
        with self._config.open("a") as config:
            config.write(f"\n[agents]\ncursor = {json.dumps(agent)}\n")

    def hub(self) -> Program:
        """A new bridge to the machine's hub, as the stream of a client; it starts the hub where
        none runs."""
        return Program([*CRAZE, "bridge", "--hub"], self.environment)

    def bridge(self, session: str) -> Program:
        """A new bridge to a session's own host."""
        return Program([*CRAZE, "bridge", "--session", session], self.environment)

    def left(self) -> dict[int, str]:
        """What still runs in this home, by pid (where there is a /proc to ask)."""
        mark = f"CRAZE_RUNTIME_DIR={self.root}/run".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes()
                    found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace")
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
        """End what a failure has left running, and remove the home."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.left():
                os.kill(pid, number)
            deadline = time.monotonic() + ENDED
            while self.left() and time.monotonic() < deadline:
                time.sleep(0.02)
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


def play(
    command: list[str],
    prompt: str,
    patience: float,
    env: Mapping[str, str],
    then: Callable[["Stage", float], None] = lambda stage, patience: None,
) -> None:
    """A session from its start to its stop; raises SystemExit or AssertionError if it goes wrong.

    `patience` is how many seconds the agent may take to start, and for one step of its turn. `then`
    is played after it, on the same stage.
    """
    stage = Stage(command, env)
    try:
        _play(stage, prompt, patience, then)
        stage.assert_empty()
        print("\nNothing is left running.")
    except ClientError as failure:
        raise SystemExit(f"\n{failure}") from None
    finally:
        stage.close()


def _play(stage: Stage, prompt: str, patience: float, then: Callable[[Stage, float], None]) -> None:
    title("`craze bridge --hub` on pipes: there is no hub, so it starts one")
    with Client(stage.hub, kind="demo") as client:
        hub = client.hello["endpoint"]
        print(f"  hub {hub['hostId']}, craze {hub['crazeVersion']}")
        options = client.request("sessions.createOptions")
        for provider in options["providers"]:
            print(plain_line(f"  {provider['id']}: {provider.get('reason') or provider['state']}"))
        with client.subscribe() as roster:
            assert roster.sessions == []
            _session(stage, client, roster, prompt, patience)
            then(stage, patience)
            title("The hub goes when nobody needs it; this one is told to")
            os.kill(hub["pid"], signal.SIGTERM)


def _session(stage: Stage, client: Client, roster: Roster, prompt: str, patience: float) -> None:
    title("The hub creates a session, and its list says so")
    created = client.request(
        "session.create",
        timeout=patience,
        cwd=str(stage.work),
        provider="demo",
        permissionMode="prompt",
        title="A demonstration",
    )["session"]
    session = created["sessionId"]
    tell(roster, created["hostId"], lambda row: row["title"] == "A demonstration", patience)

    title("Two clients: one through `craze bridge --session`, one through the hub's splice")
    near = Client(lambda: stage.bridge(session), session=session, kind="demo")
    through_hub = splice(stage.hub, session)
    with near:
        bridge = Seat("bridge", near, near.attach(timeout=patience))
        far = Client(through_hub, session=session, kind="demo")
        try:
            spliced = Seat("hub", far, far.attach(timeout=patience))
            for seat in (bridge, spliced):
                after = seat.attachment.after
                assert after is not None
                seat.say(f"{seat.client.hello['clientId']}, from the snapshot at seq {after.seq}")

            title("A prompt, and what both see of the turn")
            bridge.say(f"> {prompt}")
            bridge.client.command("session.prompt", text=prompt, mode="queue")
            halfway = bridge.until(("permission", "text", "end"), patience)
            spliced.until((kind(halfway),), patience)
        finally:
            far.close()

        title("In mid-turn the hub's client is gone; the session goes on")
        identity, cursor = far.identity, spliced.attachment.cursor
        assert identity is not None
        assert cursor is not None
        spliced.say(f"gone, after seq {cursor.seq}")
        end = halfway
        while kind(end) != "end":
            if end["type"] == "permission":
                tell(roster, created["hostId"], lambda row: row["pendingAsks"] > 0, patience)
                answer(bridge, end["permission"])
            end = bridge.until(("permission", "end"), patience)

        title("It comes back: the same client, from where it stood")
        with Client(through_hub, session=session, kind="demo", resume=identity) as again:
            spliced.client, spliced.attachment = again, again.attach(cursor=cursor)
            assert again.hello["resumed"] is True
            assert spliced.attachment.snapshot is None  # nothing had to be told anew
            spliced.say(f"{again.hello['clientId']} resumed, after seq {cursor.seq}")
            if kind(halfway) != "end":
                spliced.until(("end",), patience)
            both = [seq for seq in bridge.seen if seq >= spliced.seen[0]]
            assert spliced.seen == both == list(range(both[0], both[-1] + 1))
            print(f"\n  Both saw the same {len(both)} events, each once and in order.")

            title("A stop: both hear the end, and the session leaves the list")
            bridge.client.command("session.stop")
            for seat in (bridge, spliced):
                assert seat.until(("reset",), patience)["reason"] == "session_closed"
    tell(roster, created["hostId"], None, patience)


def tell(roster: Roster, host: str, wanted: Any, patience: float) -> None:
    """Read the roster's changes up to the one where `wanted(row)` holds of the host's row; without
    `wanted`, to where the host leaves it."""
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        note = roster.next(left)
        if note is None or note.method != "roster":
            continue
        if host in note.params["removes"]:
            print(f"  roster | {host} left")
            assert wanted is None, "it left too early"
            return
        for listed in note.params["upserts"]:
            row = listed.get("row")
            if listed["hostId"] == host and row and wanted is not None and wanted(row):
                waits = ", waits for somebody" if row["pendingAsks"] else ""
                print(plain_line(f"  roster | {host} {row['title']!r} {row['activity']}{waits}"))
                return
    raise SystemExit(f"the roster said nothing of that within {patience:g} s")


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
