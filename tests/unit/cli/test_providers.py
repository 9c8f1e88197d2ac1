"""`craze providers`: the agents of this machine, or of the hub that runs on it."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import craze
from craze import greenlets
from craze.cli import app
from craze.machine import hubs
from craze.machine.paths import Paths
from craze.terminal import table
from craze.wire import documents

from .conftest import Run

NATIVE_FIX = 'craze auth login (an API key, or "craze auth login chatgpt" for a ChatGPT plan)'


def program(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return str(folder / name)


@pytest.fixture
def home(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The craze directory; PATH is the empty folder `bin` in `tmp_path`."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    made = Path(environ["HOME"]) / ".craze"
    made.mkdir(mode=0o700)
    return made


# ---- this machine ----


def test_the_table(run: Run, home: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "grok")
    (home / "config.toml").write_text('[agents]\ncursor = "/opt/x/cursor-agent"\n')
    config = home / "config.toml"
    fix = f"point [agents].cursor at an existing binary in {config}"
    why = "[agents].cursor /opt/x/cursor-agent not found"
    assert run(app.main, "providers") == (
        0,
        f"PROVIDER  STATE        REASON{' ' * (len(why) - 6)}  FIX\n"
        f"cursor    unavailable  {why}  {fix}\n"
        f"grok      ready        -{' ' * (len(why) - 1)}  -\n"
        f"native    needs setup  {'no model provider has a key':<{len(why)}}  {NATIVE_FIX}\n",
        "",
    )


def test_json_is_one_line(run: Run, home: Path) -> None:
    (home / "config.toml").write_text('[providers.x]\nlabel = "<X> & co"\ncommand = ["/bin/sh"]\n')
    config = home / "config.toml"
    expected = (
        '{"providers":[{"id":"cursor","label":"cursor","state":"unavailable",'
        '"reason":"cursor-agent not found on PATH",'
        f'"fix":"install cursor-agent, or set [agents].cursor in {config}"}},'
        '{"id":"grok","label":"grok","state":"unavailable","reason":"grok not found on PATH",'
        f'"fix":"install grok, or set [agents].grok in {config}"}},'
        '{"id":"native","label":"native","state":"needs_setup",'
        f'"reason":"no model provider has a key","fix":{json.dumps(NATIVE_FIX)}}},'
        '{"id":"x","label":"<X> & co","state":"ready"}]}\n'
    )
    assert run(app.main, "providers", "--json") == (0, expected, "")


def states(run: Run) -> dict[str, tuple[str, str]]:
    code, out, _ = run(app.main, "providers", "--json")
    assert code == 0
    return {
        one["id"]: (one.get("reason", "ready"), one.get("fix", ""))
        for one in json.loads(out)["providers"]
    }


def test_a_launchs_program_counts_for_the_provider_of_a_launch_from_here(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAZE_AGENT_BIN", program(tmp_path, "mine"))
    found = states(run)
    assert found["cursor"][0] == "ready"
    assert found["grok"][0] == "grok not found on PATH"
    monkeypatch.setenv("CRAZE_PROVIDER", "gx")
    found = states(run)
    assert found["gx"][0] == "ready"
    assert found["cursor"][0] == "cursor-agent not found on PATH"
    monkeypatch.setenv("CRAZE_AGENT_BIN", "/no/x")
    monkeypatch.setenv("CRAZE_PROVIDER", "grok")
    found = states(run)
    assert "gx" not in found
    assert found["grok"] == (
        "CRAZE_AGENT_BIN /no/x not found",
        "point CRAZE_AGENT_BIN at an existing binary, or unset it",
    )


def test_what_a_configuration_gets_wrong_is_said_on_stderr(run: Run, home: Path) -> None:
    (home / "config.toml").write_text('[agents]\ngrok = "grok"\n')
    code, out, err = run(app.main, "providers")
    assert (code, out.count("\n")) == (0, 4)
    assert err == "craze: config.toml: [agents].grok is not an absolute path, ignored\n"


def test_no_home(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "relative")
    text = "craze providers: HOME='relative' is not an absolute path\n"
    for line in ("providers", "providers --json", "providers --hub"):
        assert run(app.main, *line.split()) == (1, "", text)


# ---- its hub ----

OPTIONS: dict[str, Any] = {
    "providers": [
        {"id": "cursor", "label": "cursor", "state": "unavailable", "reason": "none", "fix": "a b"},
        {"id": "grok", "label": "grok", "state": "ready"},
        {"id": "native", "label": "native", "state": "needs_setup", "reason": "k", "fix": "[x]"},
    ],
    "defaultProvider": "grok",
    "recentDirs": [
        {"dir": "/home/me/projects/lumen", "usedAt": "2026-10-03T12:00:00Z"},
        {"dir": "/home/me/<a> & b", "usedAt": "2026-10-02T12:00:00Z"},
    ],
}

Serve = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def serve(home: Path) -> Iterator[Serve]:
    """Run a hub that answers createOptions with `answer`, an error where that has one; what it was
    asked. `able` is whether its hello says that it can."""
    paths = Paths.of(os.environ)
    place = hubs.take(paths, "0a1b2c3d4e5f", version="9.9", started_at="2026-01-01T00:00:00Z")
    asked: list[dict[str, Any]] = []
    greenlet = None

    def start(answer: dict[str, Any], *, able: bool = True) -> list[dict[str, Any]]:
        nonlocal greenlet
        hello = documents.hub_hello(
            "0a1b2c3d4e5f", "9.9", os.getpid(), create=True, create_options=able,
            create_title=True, reopen=True,
        )  # fmt: skip

        def connection(sock: Any) -> None:
            with sock, sock.makefile("rwb") as file:
                for line in file:
                    request = json.loads(line)
                    asked.append(request)
                    said = {"result": hello} if request["method"] == "hello" else answer
                    reply = {"jsonrpc": "2.0", "id": request["id"], **said}
                    file.write(json.dumps(reply).encode() + b"\n")
                    file.flush()

        def accept() -> None:
            while True:
                greenlets.spawn("connection", connection, place.listener.accept()[0])

        greenlet = greenlets.spawn("hub", accept)
        return asked

    yield start
    if greenlet is not None:
        greenlet.kill()
    place.leave()


def test_the_table_of_a_hub(run: Run, serve: Serve) -> None:
    asked = serve({"result": OPTIONS})
    assert run(app.main, "providers", "--hub") == (
        0,
        "PROVIDER  STATE        REASON  FIX\n"
        "cursor    unavailable  none    a b\n"
        "grok      ready        -       -\n"
        "native    needs setup  k       [x]\n"
        "default: grok\n"
        "recent: /home/me/projects/lumen\n"
        "recent: /home/me/<a> & b\n",
        "",
    )
    hello, request = asked[-2:]
    about = {"kind": "cli", "name": "craze providers", "version": craze.__version__}
    assert hello["params"]["client"] == about
    assert (request["method"], request.get("params", {})) == ("sessions.createOptions", {})


def test_the_json_of_a_hub_is_what_it_said(run: Run, serve: Serve) -> None:
    later = {"later": [1, {"b": None, "a": 2}], **OPTIONS}
    serve({"result": later})
    line = json.dumps(later, separators=(",", ":")) + "\n"
    assert run(app.main, "providers", "--hub", "--json") == (0, line, "")
    assert run(app.main, "providers", "--json", "--hub") == (0, line, "")


def test_a_hub_with_nothing_to_offer(run: Run, serve: Serve) -> None:
    serve({"result": {"providers": [], "recentDirs": []}})
    out = "PROVIDER  STATE  REASON  FIX\ndefault: -\nrecent: -\n"
    assert run(app.main, "providers", "--hub") == (0, out, "")


def test_b80_a_hub_of_another_craze_is_read_as_far_as_it_can_be(run: Run, serve: Serve) -> None:
    odd = [{"id": "x", "state": "asleep", "reason": 5}, 7, {}]
    serve({"result": {"providers": odd, "defaultProvider": None, "recentDirs": "none"}})
    out = (
        "PROVIDER  STATE   REASON  FIX\n"
        "x         asleep  -       -\n"
        "-         -       -       -\n"
        "default: -\nrecent: -\n"
    )
    assert run(app.main, "providers", "--hub") == (0, out, "")


def test_b71_b72_what_a_hub_says_never_acts_on_a_terminal(run: Run, serve: Serve) -> None:
    bad = "[/x]\x1b]0;t\x07\x1b[2J\x9b2J\x9d52;c;eA==\x9c\u202eo\nk"
    provider = {"id": bad, "label": bad, "state": bad, "reason": bad, "fix": bad}
    result = {"providers": [provider], "defaultProvider": bad, "recentDirs": [{"dir": bad}]}
    serve({"result": result})
    code, out, err = run(app.main, "providers", "--hub")
    row = "[/x]o k   [/x]o k  [/x]o k  [/x]o k"
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [row, "default: [/x]o k", "recent: [/x]o k"]
    code, out, err = run(app.main, "providers", "--hub", "--json")
    assert (code, err) == (0, "")
    assert out.rstrip("\n").isprintable() and json.loads(out) == result


def test_no_hub(run: Run, home: Path) -> None:
    text = "craze providers: no hub is running\n"
    assert run(app.main, "providers", "--hub") == (1, "", text)
    assert run(app.main, "providers", "--hub", "--json") == (1, "", text)
    assert not os.path.exists(Paths.of(os.environ).hub_record), "none was started"


def test_a_hub_from_before(run: Run, serve: Serve) -> None:
    serve({"result": OPTIONS}, able=False)
    text = (
        "craze providers: this hub (craze 9.9) cannot list what it can create; it exits when idle\n"
    )
    assert run(app.main, "providers", "--hub") == (1, "", text)


def test_a_hub_that_refuses(run: Run, serve: Serve) -> None:
    data = {"code": "unavailable", "reason": "closing"}
    serve({"error": {"code": -32000, "message": "the hub is closing\x1b[2J", "data": data}})
    code, out, err = run(app.main, "providers", "--hub")
    assert (code, out) == (1, "")
    assert err.startswith("craze providers: the hub is closing") and "\x1b" not in err


# ---- usage ----


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("x", "takes no arguments"),
        ("--hub x", "takes no arguments"),
        ("--json=1", "unknown or malformed flag"),
        ("--saved", "unknown or malformed flag"),
        ("-j", "unknown or malformed flag"),
    ],
)
def test_b72_usage_errors(run: Run, home: Path, line: str, text: str) -> None:
    said = f"craze providers: {text}; see craze providers --help\n"
    assert run(app.main, "providers", *line.split()) == (2, "", said)


def test_an_old_configuration_variable(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAZE_CONFIG", "/x")
    code, out, err = run(app.main, "providers")
    assert (code, out) == (2, "") and err.startswith("craze: CRAZE_CONFIG is no longer supported")


def test_its_page_lists_its_flags(run: Run, home: Path) -> None:
    code, out, err = run(app.main, "providers", "--help")
    assert (code, err) == (0, "")
    assert out.startswith("NAME\n       craze providers - ")
    assert "\nSYNOPSIS\n       craze providers [FLAG...]\n" in out
    for flag in ("--json", "--hub", "-h, --help"):
        assert f"\n       {flag}\n" in out
    assert out.isascii() and max(map(len, out.splitlines())) <= 80


# ---- tables ----


def test_columns_are_as_wide_as_what_they_show() -> None:
    rows = [("ID", "TITLE"), ("漢字", ""), ("a\u0301", "\u200b"), ("x", "y\tz ")]
    assert table.columns(rows) == "ID    TITLE\n漢字  -\na\u0301     -\nx     y z\n"


def test_json_lines_escape_what_does_not_show() -> None:
    value = {"b": "é漢", "a": "\x9b\u202e\U000e0001<&>", "n": None}
    line = table.json_line(value)
    assert line == ('{"b":"é漢","a":"\\u009b\\u202e\\udb40\\udc01<&>","n":null}\n')
    assert json.loads(line) == value
