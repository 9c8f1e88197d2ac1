"""A session is loaded, stopped and loaded again: real hosts, real agents, one index row."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from craze.client import Attachment, Client, Refused
from craze.eventlog import journal
from craze.machine import registry
from craze.machine.paths import Paths
from tests.e2e.machine import BIN, END_S, Host, Machine, until

AGENT = str(BIN / "craze-fake-agent")
PATIENCE_S = 60
NEVER = "00000000-0000-7000-8000-000000000000"

Rows = list[tuple[str, str]]


def configure(machine: Machine, script: str, **variables: str) -> None:
    """The provider `fake` is an agent that runs a script."""
    entries = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
    machine.configure(
        f"[providers.fake]\ncommand = {json.dumps([AGENT, '--script=' + script])}\n"
        f"env = {{{entries}}}\n"
    )


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    configure(made, "remember")
    yield made
    left = made.processes()
    made.close()
    assert not left


@contextlib.contextmanager
def running(machine: Machine, *flags: str) -> Iterator[tuple[Host, Client]]:
    """A host and a client of it; stopped at the block's end, and nothing of it runs then."""
    host = machine.serve(*flags)
    try:
        with Client(host.socket) as client:
            yield host, client
    finally:
        host.process.terminate()
        host.process.wait(END_S)
    assert host.process.returncode == 0
    assert machine.wait_empty() == {}


def rows(seen: dict[str, Any] | None) -> Rows:
    """A snapshot's main transcript: a kind and its words each."""
    assert seen is not None
    return [
        (entry["kind"], entry.get("text") or entry.get("tool", {}).get("title", ""))
        for entry in seen["main"].get("entries", [])
    ]


def reads(client: Client) -> Rows:
    return rows(client.request("session.snapshot")["snapshot"])


def turn(client: Client, notes: Attachment, text: str) -> list[dict[str, Any]]:
    """A whole prompt; the events it made."""
    client.command("session.prompt", text=text, mode="queue")
    made = []
    end = time.monotonic() + PATIENCE_S
    while (note := notes.next(end - time.monotonic())) is not None:
        if note.method == "event":
            made.append(note.params["event"])
            if made[-1].get("turn", {}).get("phase") == "ended":
                return made
    raise TimeoutError(f"the turn did not end: {made}")


def index(machine: Machine) -> list[dict[str, Any]]:
    text = (machine.home / ".craze" / "sessions.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def write_index(machine: Machine, *rows: dict[str, Any]) -> None:
    folder = machine.home / ".craze"
    (folder / "sessions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def row(machine: Machine, session: str = "saved-1", **members: Any) -> dict[str, Any]:
    """A saved session's row of the index."""
    stamp = "2026-01-01T00:00:00Z"
    return {
        "sessionId": session, "provider": "fake", "cwd": str(machine.work), "title": "a title",
        "pinned": False, "createdAt": stamp, "updatedAt": stamp, "crazeId": NEVER, **members,
    }  # fmt: skip


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "updatedAt"}


def journals(machine: Machine) -> list[list[dict[str, Any]]]:
    """The events of each journal, in the order they were begun."""
    files = sorted((machine.home / ".craze" / "journal").rglob("*.jsonl"), key=os.path.getmtime)
    return [
        [line["event"] for line in journal.load(str(path)) if line["type"] == "event"]
        for path in files
    ]


def told(*turns: int) -> Rows:
    """The rows of the turns that the fake agent replays."""
    made: Rows = []
    for number in turns:
        made += [
            ("user", f"question {number}"),
            ("thought", f"thinking {number}"),
            ("assistant", f"looking {number}"),
            ("tool", f"Read {number}.md"),
            ("assistant", f"answer {number}"),
        ]
    return made


RESTORED = ("note", "restored")


def said(text: str) -> Rows:
    return [("user", text), ("assistant", f"echo: {text}")]


# ---- which session is loaded ----


def test_a_session_is_loaded_by_its_id_and_by_its_key(machine: Machine) -> None:
    with running(machine, "--provider=fake") as (host, client), client.attach() as notes:
        turn(client, notes, "one")
        first = notes.session
    [saved] = index(machine)
    assert (saved["crazeId"], saved["title"]) == (host.session, "one")
    assert saved["sessionId"] == first["providerSessionId"]
    for named in (host.session, f"fake:{saved['sessionId']}"):
        with running(machine, f"--load={named}") as (again, client), client.attach() as notes:
            assert again.session == host.session
            assert rows(notes.snapshot) == [*said("one"), RESTORED]
            info = notes.session
            assert info["incarnation"] != first["incarnation"]
            assert info["providerSessionId"] == saved["sessionId"]
            assert info["workspace"] == str(machine.work)
        assert index(machine) == [saved], "a load alone writes no row"


def test_a_row_without_an_id_is_given_one_once(machine: Machine) -> None:
    configure(machine, "load-turns")
    old = row(machine, newer={"kept": True})
    del old["crazeId"]
    write_index(machine, old)
    with running(machine, "--load=fake:saved-1") as (host, _):
        assert index(machine) == [{**old, "crazeId": host.session}]
    for named in ("fake:saved-1", host.session):
        with running(machine, f"--load={named}") as (again, _):
            assert again.session == host.session
    assert index(machine) == [{**old, "crazeId": host.session}]


def test_the_newest_row_of_an_id_is_loaded(machine: Machine) -> None:
    configure(machine, "load-turns")
    newer = row(machine, "saved-2", updatedAt="2026-02-01T00:00:00Z")
    write_index(machine, newer, row(machine))
    with running(machine, f"--load={NEVER}") as (_, client), client.attach() as notes:
        assert notes.session["providerSessionId"] == "saved-2"
    assert index(machine) == [newer, row(machine)]


def test_the_newest_session_of_the_directory_is_continued(machine: Machine) -> None:
    configure(machine, "load-turns")
    elsewhere = row(machine, "x", cwd="/", updatedAt="2026-03-01T00:00:00Z", crazeId="c-x")
    write_index(machine, row(machine), elsewhere)
    with running(machine, "--continue") as (host, client), client.attach() as notes:
        assert host.session == NEVER
        assert rows(notes.snapshot) == [*told(1, 2, 3), RESTORED]


def refusal(machine: Machine, *flags: str) -> tuple[int, str, dict[str, Any]]:
    """A host that does not come up: its exit code, its words, its ready line."""
    reading, writing = os.pipe()
    machine.environment |= {"CRAZE_READY_FD": str(writing), "CRAZE_HOST_CHILD": "1"}
    try:
        late = machine.craze("serve", *flags, stderr=subprocess.PIPE, pass_fds=[writing])
    finally:
        os.close(writing)
        del machine.environment["CRAZE_READY_FD"], machine.environment["CRAZE_HOST_CHILD"]
    _, words = late.communicate(timeout=END_S)
    with os.fdopen(reading, "rb") as pipe:
        return late.returncode, words.decode(), json.loads(pipe.read())


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--continue", f"--load={NEVER}"], 2, "--continue and --load are mutually exclusive"),
        (["--load=nope:x"], 2, '--load "nope:x": unknown provider "nope" (want '),
        (["--load=fake:"], 2, '--load "fake:" names no session id'),
        (["--load=:x"], 2, '--load ":x" is neither a craze session id nor <provider>:<session id>'),
        (["--load=a b"], 2, '--load "a b" is neither a craze session id nor <provider>:<sess'),
        ([f"--load={NEVER}", "--workspace=/"], 2,
         "--load names a session that ran in WORK, not in --workspace /"),
        (["--load=c-9"], 1, "no session c-9"),
        (["--load=fake:p-9"], 1, "no session p-9 for provider fake"),
        (["--load=c-gone"], 1, "that session ran in WORK/gone, which is no longer a directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_is_refused(
    machine: Machine, flags: list[str], code: int, words: str
) -> None:
    gone = row(machine, "saved-2", cwd=f"{machine.work}/gone", crazeId="c-gone")
    write_index(machine, row(machine), gone)
    exit_code, printed, ready = refusal(machine, *flags)
    words = "craze serve: " + words.replace("WORK", str(machine.work))
    assert exit_code == code
    assert printed.startswith(words), printed
    assert (ready["ok"], ready["refused"]) == (False, True)
    assert ready["error"] in (printed.rstrip("\n"), printed[len("craze serve: ") :].rstrip("\n"))
    assert index(machine) == [row(machine), gone]
    assert machine.wait_empty() == {}


# ---- the replay ----


@pytest.mark.parametrize("script", ["load-turns", "load-twice", "load-late"])
def test_b08_reopened_twice_a_session_has_the_same_rows(machine: Machine, script: str) -> None:
    configure(machine, script)
    write_index(machine, row(machine))
    for count in (1, 2):
        with running(machine, f"--load={NEVER}") as (_, client), client.attach() as notes:
            state = client.request("session.state")
            assert (state["prompted"], state.get("lastTurn")) == (False, None)

            def conversation(client: Client = client) -> Rows:
                return [row for row in reads(client) if row != RESTORED]

            # A slow machine may see a late replay in parts.
            assert until(lambda: conversation() == told(1, 2, 3), PATIENCE_S), conversation()
            assert until(lambda: client.request("session.state")["activity"] == "idle", PATIENCE_S)
            turn(client, notes, "hi")
            assert conversation() == [*told(1, 2, 3), *said("hi")]
        written = journals(machine)
        assert len(written) == count
        asked = [event["text"] for event in written[-1] if event["type"] == "user"]
        assert asked == ["question 1", "question 2", "question 3"]
        brackets = [e["replay"]["phase"] for e in written[-1] if e["type"] == "replay"]
        assert brackets[:2] == ["start", "end"]


def test_b08_what_was_said_in_one_run_is_replayed_in_the_next(machine: Machine) -> None:
    with running(machine, "--provider=fake") as (host, client), client.attach() as notes:
        turn(client, notes, "one")
    expected = said("one")
    for text in ("two", "three"):
        with running(machine, f"--load={host.session}") as (_, client), client.attach() as notes:
            assert rows(notes.snapshot) == [*expected, RESTORED]
            turn(client, notes, text)
            assert reads(client) == [*expected, RESTORED, *said(text)]
        expected += said(text)
    [saved] = index(machine)
    assert (saved["crazeId"], saved["title"]) == (host.session, "one")


def test_a_load_is_watched_and_a_prompt_waits_for_its_end(machine: Machine) -> None:
    gate = machine.work / "gate"
    os.mkfifo(gate)
    configure(machine, "load-held", CRAZE_FAKE_GATE=str(gate))
    write_index(machine, row(machine))
    with (
        running(machine, f"--load={NEVER}") as (_, client),
        client.attach(when="now") as notes,
        open(os.open(gate, os.O_RDWR), "wb", buffering=0) as opened,
    ):
        assert until(lambda: reads(client) == told(1), PATIENCE_S)
        listed = client.request("sessions.list")["sessions"][0]
        assert listed["activity"] == "replaying"
        assert client.request("session.state")["activity"] == "replaying"
        for method, params in (
            ("session.prompt", {"text": "x", "mode": "queue"}),
            ("session.prompt", {"text": "x", "mode": "send_now"}),
            ("session.queue.add", {"text": "x"}),
            ("session.set", {"setting": {"kind": "mode", "value": "plan"}}),
            ("session.setTitle", {"title": "x"}),
        ):
            with pytest.raises(Refused) as refused:
                client.command(method, **params)
            assert (refused.value.code, refused.value.reason) == ("not_accepting",) * 2
        opened.write(b"1")
        ready = None
        events = []
        while ready is None:
            note = notes.next(PATIENCE_S)
            assert note is not None
            if note.method == "event":
                events.append(note.params["event"])
            elif note.method == "ready":
                ready = note.params
        assert (ready["startFailed"], ready.get("err")) == (False, None)
        assert events[-1]["replay"] == {"phase": "end"}
        assert all(event.get("replayed") for event in events if event["type"] != "replay")
        assert reads(client) == [*told(1, 2, 3), RESTORED]
        opened.write(b"1")
        made = turn(client, notes, "hi")
        assert not any(event.get("replayed") for event in made)


# ---- settings ----


def test_a_loaded_sessions_settings_are_shown(machine: Machine) -> None:
    configure(machine, "load-settings")
    write_index(machine, row(machine))
    with running(machine, f"--load={NEVER}") as (_, client), client.attach() as notes:
        settings = client.request("session.state")["settings"]
        assert (settings["mode"], settings["model"]) == ("plan", "composer")
        current = {option["id"]: option["current"] for option in settings["config"]["options"]}
        assert current == {"effort": "high", "fast": "false"}
        assert notes.snapshot is not None
        seen = notes.snapshot["settings"]
        assert (seen["mode"], seen["model"]) == ("plan", "composer")
        made = turn(client, notes, "x")
        words = "".join(event["text"] for event in made if event["type"] == "text")
        assert words == "mode=plan model=composer effort=high,fast=false"


def test_an_unattended_session_is_loaded_with_what_it_was_started_with(machine: Machine) -> None:
    configure(machine, "load-settings")
    write_index(machine, row(machine))
    flags = ["--unattended", "--ask", "--no-force", "--model=default", "--effort=low"]
    with running(machine, f"--load={NEVER}", *flags) as (_, client), client.attach() as notes:
        assert notes.session["permissionMode"] == "prompt"
        made = turn(client, notes, "x")
        words = "".join(event["text"] for event in made if event["type"] == "text")
        assert words == "mode=ask model=default effort=low,fast=false"
        assert reads(client)[: len(told())] == told()
    header = next(line for line in raw_journal(machine) if line["type"] == "header")
    assert (header["interactive"], header["force"], header["mode"]) == (False, False, "ask")


def raw_journal(machine: Machine) -> list[dict[str, Any]]:
    [path] = (machine.home / ".craze" / "journal").rglob("*.jsonl")
    return list(journal.load(str(path)))


def test_a_saved_title_comes_first_and_is_still_the_agents_to_replace(machine: Machine) -> None:
    configure(machine, "load-turns")
    write_index(machine, row(machine))
    with running(machine, f"--load={NEVER}") as (_, client), client.attach() as notes:
        assert client.request("sessions.list")["sessions"][0]["title"] == "a title"
        assert notes.snapshot is not None and notes.snapshot["settings"]["title"] == "a title"
    [events] = journals(machine)
    assert events[0]["state"] == {"title": "a title"}
    assert events[1]["replay"] == {"phase": "start"}
    assert index(machine) == [row(machine)]


def test_a_title_that_was_given_is_kept_and_the_agents_does_not_replace_it(
    machine: Machine,
) -> None:
    with running(machine, "--provider=fake") as (host, client), client.attach() as notes:
        turn(client, notes, "one")
        client.command("session.setTitle", title="mine")
    with running(machine, f"--load={host.session}") as (_, client), client.attach() as notes:
        assert client.request("sessions.list")["sessions"][0]["title"] == "mine"
        assert notes.snapshot is not None and notes.snapshot["settings"]["title"] == "mine"
    [saved] = index(machine)
    assert (saved["title"], saved["pinned"]) == ("mine", True)


# ---- loads that fail ----


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo", "agent: fake does not support session/load"),
        ("load-missing", "session not found: saved-1"),
        ("exit-two-lines", "acp: agent exited: exit status 1: "
         "Error: KEYCHAIN LOCKED / Run unlock and retry."),
        ("", "agent binary not found: /nowhere/agent"),
    ],
)  # fmt: skip
def test_b43_b75_a_load_that_fails_says_why_and_keeps_the_row(
    machine: Machine, script: str, cause: str
) -> None:
    if script:
        configure(machine, script)
    else:
        machine.configure('[providers.fake]\ncommand = ["/nowhere/agent"]\n')
    write_index(machine, row(machine))
    before = (machine.home / ".craze" / "sessions.jsonl").read_bytes()
    host = machine.serve(f"--load={NEVER}")
    assert host.session == NEVER
    with Client(host.socket) as client:
        with pytest.raises(Refused) as refused, client.attach():
            pass
        assert (refused.value.code, refused.value.reason) == ("not_accepting", "start_failed")
        assert refused.value.cause.startswith(cause)
        listed = client.request("sessions.list")["sessions"][0]
        assert (listed["activity"], listed["startFailed"]) == ("error", True)
        assert listed["startErr"].startswith(cause)
        with pytest.raises(Refused) as gate:
            client.command("session.prompt", text="x", mode="queue")
        assert gate.value.code == "not_accepting"
        with client.attach(when="now") as notes:
            assert next(notes).method == "synchronized"
    assert host.process.wait(END_S) == 0, "it ends once nobody is attached"
    assert machine.wait_empty() == {}
    assert (machine.home / ".craze" / "sessions.jsonl").read_bytes() == before
    # Nothing of the failure stands in the way of the next load.
    configure(machine, "load-turns")
    with running(machine, f"--load={NEVER}") as (_, client), client.attach() as notes:
        assert rows(notes.snapshot) == [*told(1, 2, 3), RESTORED]


@pytest.mark.parametrize("script", ["load-hang", "bad-silent"])
def test_b43_b75_a_load_that_hangs_can_be_ended(machine: Machine, script: str) -> None:
    configure(machine, script)
    write_index(machine, row(machine))
    before = (machine.home / ".craze" / "sessions.jsonl").read_bytes()
    activity = "replaying" if script == "load-hang" else "starting"
    host = machine.serve(f"--load={NEVER}")
    with Client(host.socket) as client, client.attach(when="now") as notes:
        state = lambda: client.request("session.state")["activity"]  # noqa: E731
        assert until(lambda: state() == activity, PATIENCE_S)
        client.command("session.stop")
        said = list(notes)
        assert (said[-1].method, said[-1].params["reason"]) == ("reset", "session_closed")
    assert host.process.wait(END_S) == 0
    assert machine.wait_empty() == {}
    assert (machine.home / ".craze" / "sessions.jsonl").read_bytes() == before


# ---- an agent that dies, and a session that is opened again and again ----


@pytest.mark.parametrize("busy", [False, True])
def test_b24_a_killed_agent_ends_its_session_and_a_load_has_a_new_one(
    machine: Machine, busy: bool
) -> None:
    gate = machine.work / "gate"
    os.mkfifo(gate)
    with running(machine, "--provider=fake") as (host, client), client.attach() as notes:
        turn(client, notes, "one")
    configure(machine, "remember", CRAZE_FAKE_GATE=str(gate))
    host = machine.serve(f"--load={host.session}")
    with Client(host.socket) as client, client.attach() as notes:
        if busy:
            client.command("session.prompt", text="two", mode="queue")
        agents = [pid for pid, line in machine.processes().items() if AGENT in line]
        [agent] = agents
        os.kill(agent, signal.SIGKILL)
        said_last = list(notes)
    events = [note.params["event"] for note in said_last if note.method == "event"]
    [failure] = [event["err"] for event in events if event["type"] == "error"]
    assert failure["message"].startswith("acp: agent exited: signal: killed")
    assert (failure["class"], failure["code"]) == ("agent_exit_status", -1)
    turns = [event["turn"] for event in events if event["type"] == "turn"]
    assert [turn.get("errClass") for turn in turns] == [None, "agent_exit_status"] * busy
    assert said_last[-1].params["reason"] == "session_closed"
    assert host.process.wait(END_S) == 0
    assert machine.wait_empty() == {}
    configure(machine, "remember")
    with running(machine, f"--load={host.session}") as (_, client), client.attach() as notes:
        assert rows(notes.snapshot) == [*said("one"), RESTORED]
        turn(client, notes, "three")
        assert reads(client) == [*said("one"), RESTORED, *said("three")]
        [again] = [pid for pid, line in machine.processes().items() if AGENT in line]
        assert again != agent


def test_a_session_is_loaded_and_stopped_twenty_times(machine: Machine) -> None:
    with running(machine, "--provider=fake") as (host, client), client.attach() as notes:
        turn(client, notes, "one")
    [saved] = index(machine)
    paths = Paths.of(machine.environment)
    seen = set()
    for count in range(20):
        with running(machine, f"--load={host.session}") as (again, client):
            with client.attach() as notes:
                assert rows(notes.snapshot) == [*said("one"), RESTORED]
                running_now = sorted(machine.processes().values())
                assert [AGENT in line for line in running_now].count(True) == 1
                assert len(running_now) == 2, running_now
                live, unreadable = registry.scan(paths)
                assert [entry.hostId for entry in live] == [again.id] and not unreadable
            if count % 2:
                client.command("session.stop")
                assert again.process.wait(END_S) == 0
        assert again.session == host.session
        seen.add(again.id)
        [now] = index(machine)
        assert timeless(now) == timeless(saved)
    assert len(seen) == 20
    cache = machine.home / ".cache" / "craze"
    assert not list((cache / "hosts").iterdir())
    assert [path.name for path in (cache / "locks").iterdir()] == [f"{host.session}.lock"]
    assert (cache / "locks" / f"{host.session}.lock").read_bytes() == b""
    assert not list((cache / "host-logs").glob("*.pgids"))
    assert not list(Path(machine.runtime).rglob("*.sock"))
