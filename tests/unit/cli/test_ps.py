"""`craze ps`: what it lists, from whom, and what it says where it cannot."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import craze
from craze.cli import app, ps
from craze.client import hubs
from craze.clock import ManualClock
from craze.machine.index import Index
from craze.machine.paths import Paths
from craze.wire.times import parse_time

from .conftest import Run
from .stand_in import HANG_UP, SILENT, StandIn, refusal

NOW = parse_time("2026-11-30T12:00:00Z")
HOST = "0123456789ab"
BAD = "[/x]\x1b]0;t\x07\x1b[2J\x9b2J\x9d52;c;eA==\x9c\u202eo\nk"
DIRECTLY = "reading each session's host directly"

Hub = Callable[..., StandIn]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ps, "Clock", lambda: ManualClock(NOW))


@pytest.fixture
def hub(environ: dict[str, str]) -> Iterator[Hub]:
    """Run a hub that answers sessions.list, or another method, with these."""
    made: list[StandIn] = []

    def start(*answers: Any, method: str = "sessions.list", lacks: Any = ()) -> StandIn:
        made.append(StandIn(Paths.of(os.environ), lacks=lacks))
        made[0].answers[method] = list(answers)
        return made[0]

    yield start
    for one in made:
        one.close()


def listed(id: str, row: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """A roster row."""
    host = {"pid": 1, "crazeVersion": "0", "protocol": 1, "provider": "grok", "workspace": "/w",
            "startedAt": "2026-11-29T00:00:00Z", "ready": True}  # fmt: skip
    members = {"hostId": HOST, "sessionId": id, "host": host, "status": "reachable",
               "approximate": False, "row": row}  # fmt: skip
    for name, value in changes.items():
        (host if name in host else members)[name] = value
    return {name: value for name, value in members.items() if value is not None}


def result(*rows: Any) -> dict[str, Any]:
    return {"result": {"epoch": "0a1b2c3d4e5f", "cursor": 7, "sessions": list(rows)}}


def row(**members: Any) -> dict[str, Any]:
    return {"activity": "idle", "foreignTurn": False, "pendingAsks": 0, "title": "", **members}


# ---- the table ----


def test_the_table(run: Run, hub: Hub, environ: dict[str, str]) -> None:
    home = environ["HOME"]
    Index(Paths.of(environ)).record("grok", "p-1", "/w", "s-indexed", NOW, title="From the index",
                                    source="user")  # fmt: skip
    stand_in = hub(
        result(
            listed("s-indexed", row(since="2026-11-30T11:59:18Z", model="m" * 40), workspace=home),
            listed("0190ab12-cd34-7ef0-8123-456789abcdef",
                   row(activity="working", title="fix the flaky test", model="grok-4",
                       since="2026-11-30T11:55:00Z"), workspace=f"{home}/src/lumen"),
            listed("s-asks", row(pendingAsks=1, since="2026-11-30T09:00:00Z", title="[/x]")),
            listed("s-gone", row(title="was here", model="m"), status="unreachable",
                   workspace=f"{home}x"),
            listed("s-starts", None, status="connecting", ready=False, provider=""),
            listed("s-fails", row(startFailed=True, since="2026-11-24T11:00:00Z")),
        )
    )  # fmt: skip
    assert run(app.main, "ps") == (
        0,
        f"SESSION   STATE        PROVIDER  MODEL                             DIR{' ' * 10}"
        f"{' ' * (len(home) - 12)}  SINCE  TITLE\n"
        f"s-asks    needs you    grok      -                                 "
        f"{'/w':<{len(home) + 1}}  3h     [/x]\n"
        f"89abcdef  working      grok      grok-4                            "
        f"{'~/src/lumen':<{len(home) + 1}}  5m     fix the flaky test\n"
        f"s-starts  starting     -         -                                 "
        f"{'/w':<{len(home) + 1}}  -      -\n"
        f"s-fails   failed       grok      -                                 "
        f"{'/w':<{len(home) + 1}}  6d     -\n"
        f"-indexed  idle         grok      {'m' * 31}…  "
        f"{'~':<{len(home) + 1}}  42s    From the index\n"
        f"s-gone    unreachable  grok      m                                 "
        f"{home}x  -      was here\n",
        "",
    )
    assert [request["method"] for request in stand_in.asked] == ["sessions.list"]
    assert stand_in.clients[-1] == {
        "kind": "cli", "name": "craze ps", "version": craze.__version__,
    }  # fmt: skip


def test_inside_a_state_the_newest_is_first_and_then_the_ids_decide(run: Run, hub: Hub) -> None:
    late, early = "2026-11-30T11:00:00Z", "2026-11-30T10:00:00Z"
    hub(
        result(
            listed("one-d", row(since=early)),
            listed("one-c", row(), startedAt=late),
            listed("one-b", row(since=late)),
            listed("one-a", row(since=early)),
            listed("one-e", row(), startedAt="x"),
        )
    )
    out = run(app.main, "ps")[1]
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "one-b", "one-c", "one-a", "one-d", "one-e",
    ]  # fmt: skip


def test_no_sessions(run: Run, hub: Hub) -> None:
    hub(result())
    assert run(app.main, "ps") == (0, "no sessions running\n", "")


FAILED_TURN = {"outcome": "failed", "err": "x", "endedAt": "t", "turnId": "turn-1"}
DONE_TURN = {"outcome": "done", "endedAt": "t", "turnId": "turn-1"}


@pytest.mark.parametrize(
    ("host_row", "state"),
    [
        (row(), "idle"),
        (row(lastTurn=DONE_TURN), "idle"),
        (row(lastTurn={"outcome": "cancelled"}), "idle"),
        (row(activity="working"), "working"),
        (row(activity="closing"), "working"),
        (row(foreignTurn=True), "working"),
        (row(activity="starting"), "starting"),
        (row(activity="replaying"), "starting"),
        (row(lastTurn=FAILED_TURN), "failed"),
        (row(startFailed=True, activity="error"), "failed"),
        (row(activity="error"), "failed"),
        (row(activity="error", lastTurn=DONE_TURN), "idle"),
        (row(activity="error", foreignTurn=True), "working"),
        (row(activity="working", pendingAsks=2), "needs you"),
        (row(startFailed=True, pendingAsks=1), "needs you"),
        ({"activity": "asleep", "pendingAsks": "1", "lastTurn": [], "foreignTurn": 1}, "idle"),
    ],
)
def test_the_state_of_a_row_of_any_build(
    run: Run, hub: Hub, host_row: dict[str, Any], state: str
) -> None:
    hub(result(listed("s-1", host_row)))
    assert run(app.main, "ps")[1].splitlines()[1].startswith(f"s-1      {state}  ")


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"status": "connecting"}, "unreachable"),
        ({"status": "connecting", "ready": False}, "starting"),
        ({"status": "unreachable"}, "unreachable"),
        ({"status": "unreachable", "ready": False}, "unreachable"),
        ({"status": "reachable"}, "unreachable"),  # a row that was too large to come
    ],
)
def test_the_state_of_a_host_that_said_nothing(
    run: Run, hub: Hub, changes: dict[str, Any], state: str
) -> None:
    hub(result(listed("s-1", None, **changes)))
    assert run(app.main, "ps")[1].splitlines()[1].startswith(f"s-1      {state}  ")


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("2026-11-30T12:00:00Z", "0s"),
        ("2026-11-30T12:00:05Z", "0s"),  # clocks differ
        ("2026-11-30T11:59:00.5Z", "59s"),
        ("2026-11-30T11:59:00Z", "1m"),
        ("2026-11-30T11:00:01Z", "59m"),
        ("2026-11-30T11:00:00Z", "1h"),
        ("2026-11-29T12:00:01Z", "23h"),
        ("2026-11-29T12:00:00Z", "1d"),
        ("2025-11-30T12:00:00Z", "365d"),
        ("yesterday", "-"),
        (7, "-"),
    ],
)
def test_how_long_since(run: Run, hub: Hub, since: Any, shown: str) -> None:
    hub(result(listed("s-1", row(since=since))))
    assert run(app.main, "ps")[1].splitlines()[1].split()[-2] == shown


def test_an_index_that_cannot_be_read_names_nothing(
    run: Run, hub: Hub, environ: dict[str, str]
) -> None:
    os.mkdir(f"{environ['HOME']}/.craze")
    Path(environ["HOME"], ".craze", "sessions.jsonl").write_text("{}\n")
    hub(result(listed("s-1", row())))
    assert run(app.main, "ps")[1].splitlines()[1].split()[-1] == "-"


def test_b71_b72_nothing_of_a_peers_acts_on_a_terminal_or_is_markup(run: Run, hub: Hub) -> None:
    hostile = listed(
        BAD, row(title=BAD, model=BAD, activity=BAD, since=BAD),
        provider=BAD, workspace=BAD, startedAt=BAD, status=BAD,
    )  # fmt: skip
    stand_in = hub(result(hostile))
    code, out, err = run(app.main, "ps")
    assert (code, err) == (0, "")
    assert out.splitlines()[1] == "[/x]o k  idle   [/x]o k   [/x]o k  [/x]o k  -      [/x]o k"
    code, out, err = run(app.main, "ps", "--json")
    assert (code, err) == (0, "")
    assert out.rstrip("\n").isprintable()
    assert json.loads(out) == stand_in.answers["sessions.list"][0]["result"]


@pytest.mark.parametrize(
    "odd",
    [{}, [], 7, {"sessions": None}, {"sessions": [7, None, "x"], "more": 1}, {"sessions": {}}],
)
def test_what_is_no_list_lists_nothing(run: Run, hub: Hub, odd: Any) -> None:
    hub({"result": odd})
    assert run(app.main, "ps") == (0, "no sessions running\n", "")


def test_a_row_with_nothing_in_it(run: Run, hub: Hub) -> None:
    hub(result({}))
    assert run(app.main, "ps")[1].splitlines()[1].split() == [
        "-", "starting", "-", "-", "-", "-", "-",
    ]  # fmt: skip


# ---- JSON ----


def test_json_is_what_the_hub_said_byte_for_byte(run: Run, hub: Hub) -> None:
    raw = (
        b'{"epoch":"0a1b2c3d4e5f","cursor":7,"sessions":[{"b":1.0,"a":1e3,"b":"\\u003c<>&\\/",'
        b'"row":{ "z" :\t9007199254740993,"title":"\xc3\xa9 \xf0\x9f\x91\x8d"}}],"more":[]}'
    )
    hub(raw)
    assert run(app.main, "ps", "--json") == (0, raw.decode().replace("\t", " ") + "\n", "")


# ---- without a hub ----


@pytest.fixture
def fake_host(environ: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A host in the registry, which does what is written to it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "craze.fakes.host", f"--registry={environ['HOME']}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ | {"PATH": os.environ["PATH"]},
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline()
    yield process
    process.stdin.close()
    process.wait(20)
    process.stdout.close()


def test_no_hub_reads_the_hosts_and_starts_none(
    run: Run, fake_host: "subprocess.Popen[bytes]", environ: dict[str, str]
) -> None:
    note = f"craze ps: --no-hub: {DIRECTLY}\n"
    assert run(app.main, "ps", "--no-hub") == (
        0,
        "SESSION   STATE  PROVIDER  MODEL  DIR    SINCE  TITLE\n"
        "n-fake-1  idle   cursor    -      /work  -      -\n",
        note,
    )
    code, out, err = run(app.main, "ps", "--no-hub", "--json")
    assert (code, err, out.count("\n")) == (0, note, 1)
    said = json.loads(out)
    [session] = said["sessions"]
    assert list(said) == ["epoch", "cursor", "sessions"] and (said["epoch"], said["cursor"]) == (
        "", 0,
    )  # fmt: skip
    assert session["hostId"] == HOST and session["status"] == "reachable"
    assert session["host"]["crazeVersion"] == "0.0.0-fakehost"
    assert session["row"]["sessionId"] == "session-fake-1"
    assert not os.path.exists(Paths.of(environ).hubs)


def test_a_stopping_host_is_not_listed(run: Run, fake_host: "subprocess.Popen[bytes]") -> None:
    assert fake_host.stdin is not None
    fake_host.stdin.write(b'{"name":"mark_stopping"}\n')
    fake_host.stdin.flush()
    for _ in range(200):
        code, out, _ = run(app.main, "ps", "--no-hub")
        assert code == 0
        if out == "no sessions running\n":
            return
    raise AssertionError(out)


def test_a_host_that_does_not_answer_is_unreachable(
    run: Run, fake_host: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ps, "DIRECT", 0.3)
    os.kill(fake_host.pid, 19)
    try:
        code, out, _ = run(app.main, "ps", "--no-hub")
    finally:
        os.kill(fake_host.pid, 18)
    assert code == 0
    assert out.splitlines()[1].split() == ["n-fake-1", "unreachable", "-", "-", "/work", "-", "-"]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((HANG_UP,), "the connection to the hub was lost before it answered"),
        ((refusal("unavailable", "host_unreachable", "the registry\x1b[2J is bad"),),
         "the registry is bad"),
        ((refusal("unavailable", "closing", "the hub is closing"),), "the hub is closing"),
        ((SILENT,), "the hub gave no answer within 1s"),
    ],
)  # fmt: skip
def test_a_hub_that_gives_no_answer_is_not_waited_for(
    run: Run, hub: Hub, answers: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ps, "HUB_FIND", 0.5)
    monkeypatch.setattr(ps, "ANSWER", 0.5)
    hub(*answers)
    note = f"craze ps: the hub is not available ({reason}); {DIRECTLY}\n"
    assert run(app.main, "ps") == (0, "no sessions running\n", note)
    code, out, err = run(app.main, "ps", "--json")
    assert (code, out, err) == (0, '{"epoch":"","cursor":0,"sessions":[]}\n', note)


@pytest.mark.parametrize(
    "first", [HANG_UP, refusal("unavailable", "closing", "the hub is closing")]
)
def test_a_lost_connection_is_tried_once_more(run: Run, hub: Hub, first: Any) -> None:
    stand_in = hub(first, result())
    assert run(app.main, "ps") == (0, "no sessions running\n", "")
    assert len(stand_in.asked) == 2


def test_no_hub_to_be_had(run: Run, environ: dict[str, str], mocker: Any) -> None:
    mocker.patch.object(hubs, "find_or_start", side_effect=hubs.HubError("start craze hub: no"))
    note = f"craze ps: the hub is not available (start craze hub: no); {DIRECTLY}\n"
    assert run(app.main, "ps") == (0, "no sessions running\n", note)


def test_a_registry_that_cannot_be_read(run: Run, environ: dict[str, str]) -> None:
    hosts = Path(environ["HOME"], ".cache", "craze", "hosts")
    for folder in (hosts.parent.parent, hosts.parent, hosts):
        folder.mkdir(mode=0o700)
    hosts.chmod(0o755)
    code, out, err = run(app.main, "ps", "--no-hub")
    note, failed = err.splitlines()
    assert (code, out, note) == (1, "", f"craze ps: --no-hub: {DIRECTLY}")
    assert failed.startswith(f"craze ps: {hosts} has mode 0755, and 0700 is required")


def test_no_home(run: Run, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "x")
    assert run(app.main, "ps") == (1, "", "craze ps: HOME='x' is not an absolute path\n")


# ---- saved sessions ----

SAVED = {
    "sessions": [
        {"id": "0190ab12-cd34-7ef0-8123-456789abcdef", "provider": "cursor",
         "crazeSessionId": "0190ab12-cd34-7ef0-8123-456789abcdef", "providerSessionId": "7c1f",
         "workspace": "/home/me/lumen", "title": "fix [it]", "createdAt": "2026-10-12T09:00:00Z",
         "updatedAt": "2026-11-30T10:00:00Z"},
        {"id": "grok:4f1e2d3c", "provider": "grok", "providerSessionId": "4f1e2d3c",
         "workspace": "{home}/x", "createdAt": "2026-10-11T09:00:00Z",
         "updatedAt": "2026-11-01T10:00:00Z"},
    ],
    "more": False,
}  # fmt: skip


def test_saved_sessions(run: Run, hub: Hub, environ: dict[str, str]) -> None:
    said = json.dumps(SAVED).replace("{home}", environ["HOME"])
    stand_in = hub(said.encode(), method="sessions.saved")
    assert run(app.main, "ps", "--saved") == (
        0,
        "ID                                    PROVIDER  DIR             UPDATED  TITLE\n"
        "0190ab12-cd34-7ef0-8123-456789abcdef  cursor    /home/me/lumen  2h       fix [it]\n"
        "grok:4f1e2d3c                         grok      ~/x             29d      -\n",
        "",
    )
    assert run(app.main, "ps", "--saved", "--json") == (0, said + "\n", "")
    assert [request.get("params") for request in stand_in.asked] == [{}, {}]


def test_no_saved_sessions(run: Run, hub: Hub) -> None:
    hub({"result": {"sessions": [], "more": False}}, method="sessions.saved")
    assert run(app.main, "ps", "--saved") == (0, "no saved sessions\n", "")


def test_more_saved_sessions_than_are_listed(run: Run, hub: Hub) -> None:
    hub({"result": {**SAVED, "more": True}}, method="sessions.saved")
    code, out, err = run(app.main, "ps", "--saved")
    assert (code, out.count("\n")) == (0, 3)
    assert err == "craze ps: there are more; these are the 2 newest\n"


def index(environ: dict[str, str]) -> None:
    own = Index(Paths.of(environ))
    own.record("cursor", "p-1", "/w", "01-a", NOW - 10**9, title="one", source="user")
    own.record("fancy", "p-2", "/w", "01-b", NOW, title="of no provider known", source="user")


def test_an_older_hubs_saved_sessions_are_read_here(
    run: Run, hub: Hub, environ: dict[str, str]
) -> None:
    index(environ)
    hub(method="sessions.saved", lacks=("reopen",))
    table = "ID    PROVIDER  DIR  UPDATED  TITLE\n01-a  cursor    /w   1s       one\n"
    note = (
        "craze ps: the hub is not available (this hub (craze 9.9) cannot reopen a saved session;"
        " it exits when idle); reading the session index directly\n"
    )
    assert run(app.main, "ps", "--saved") == (0, table, note)
    note = "craze ps: --no-hub: reading the session index directly\n"
    assert run(app.main, "ps", "--saved", "--no-hub") == (0, table, note)
    code, out, err = run(app.main, "ps", "--saved", "--no-hub", "--json")
    assert (code, err) == (0, note)
    assert out == (
        '{"sessions":[{"id":"01-a","crazeSessionId":"01-a","provider":"cursor",'
        '"providerSessionId":"p-1","workspace":"/w","title":"one",'
        '"createdAt":"2026-11-30T11:59:59Z","updatedAt":"2026-11-30T11:59:59Z"}],"more":false}\n'
    )


def test_a_saved_list_without_knowing_what_runs_is_none(run: Run, environ: dict[str, str]) -> None:
    index(environ)
    hosts = Path(environ["HOME"], ".cache", "craze", "hosts")
    for folder in (hosts.parent.parent, hosts.parent, hosts):
        folder.mkdir(mode=0o700)
    (hosts / f"{HOST}.json").write_text("{")
    with open(hosts / f"{HOST}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = run(app.main, "ps", "--saved", "--no-hub")
    text = f"craze ps: the registry entry of the live host {HOST} cannot be read"
    assert (code, out, err.splitlines()[1]) == (1, "", text)


def test_an_index_that_cannot_be_read_has_no_saved_sessions(
    run: Run, environ: dict[str, str]
) -> None:
    index(environ)
    Path(environ["HOME"], ".craze", "sessions.jsonl").write_text("{}\n")
    code, out, err = run(app.main, "ps", "--saved", "--no-hub")
    assert (code, out) == (0, "no saved sessions\n")
    assert err.splitlines()[1].startswith("craze ps: the session index cannot be read: ")


# ---- widths ----

LONG = [
    ("SESSION", "DIR", "SINCE", "TITLE"),
    ("89abcdef", "~/src/a/rather/deep/place", "5m", "a title of some thirty letters"),
    ("01234567", "/w", "-", "漢字" * 60),
]


@pytest.mark.parametrize(
    ("screen", "directory", "title"),
    [
        (300, "~/src/a/rather/deep/place", "漢字" * 60),
        (284, "~/src/a/rather/deep/place", "漢字" * 60),  # 44 cells, and the title's 240
        (280, "…/a/rather/deep/place", "漢字" * 60),
        (275, "…ther/deep/place", "漢字" * 60),
        (269, "…eep/place", "漢字" * 60),
        (268, "…eep/place", "漢字" * 59 + "漢…"),
        (267, "…eep/place", "漢字" * 59 + "…"),
        (60, "…eep/place", "漢字" * 7 + "漢…"),
        (10, "…eep/place", "漢字…"),
    ],
)
def test_the_directory_is_cut_first_and_then_the_title(
    monkeypatch: pytest.MonkeyPatch, screen: int, directory: str, title: str
) -> None:
    monkeypatch.setattr(ps, "_screen", lambda: screen)
    lines = ps._fitted(LONG).splitlines()
    assert lines[1].split()[1] == directory
    assert lines[2].split()[-1] == title


def test_off_a_terminal_a_title_has_a_hundred_cells(run: Run, hub: Hub) -> None:
    hub(result(listed("s-1", row(title="漢" * 51), workspace="/" + "d" * 300)))
    line = run(app.main, "ps")[1].splitlines()[1]
    assert line.endswith("  " + "漢" * 49 + "…") and "/" + "d" * 300 in line


def shown(environ: dict[str, str], columns: int, *arguments: str) -> list[str]:
    """What a program shows on a terminal of so many columns."""
    leader, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [Path(sys.executable).parent / "craze", *arguments],
            stdout=terminal,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
        os.close(terminal)
        terminal = -1
        data = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux, at the end
                piece = b""
            if not piece:
                break
            data += piece
        assert process.wait(20) == 0
    finally:
        os.close(leader)
        if terminal >= 0:
            os.close(terminal)
    return data.decode().replace("\r\n", "\n").splitlines()


def test_on_a_terminal_the_table_is_as_wide_as_that(environ: dict[str, str]) -> None:
    Index(Paths.of(environ)).record(
        "cursor", "p", "/home/me/projects/somewhere", "01-a", NOW, title="t" * 100, source="user"
    )
    line = ("ps", "--saved", "--no-hub")
    for columns in (60, 80, 100, 0):
        assert max(map(len, shown(environ, columns, *line))) == (columns or 80)
    narrow = shown(environ, 60, *line)[1]
    assert narrow.split()[2] == "…somewhere" and narrow.endswith("ttt…")
    wide = shown(environ, 200, *line)[1]
    assert "/home/me/projects/somewhere" in wide and wide.endswith("t" * 100)


# ---- usage ----


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("x", "takes no arguments"),
        ("--json hunter2[b]", "takes no arguments"),
        ("--json=1", "unknown or malformed flag"),
        ("--hunter2[b]", "unknown or malformed flag"),
        ("-j", "unknown or malformed flag"),
    ],
)
def test_b72_usage_errors(run: Run, line: str, text: str) -> None:
    said = f"craze ps: {text}; see craze ps --help\n"
    assert run(app.main, "ps", *line.split()) == (2, "", said)


def test_an_old_configuration_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAZE_CONFIG", "/x")
    code, out, err = run(app.main, "ps")
    assert (code, out) == (2, "") and err.startswith("craze: CRAZE_CONFIG is no longer supported")
