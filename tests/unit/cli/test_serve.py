"""The flags of `craze serve`, settled: every refusal to the letter, and what the host is told."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from craze.cli import serve
from craze.host.options import Options
from craze.machine.index import Load
from craze.terminal.flags import parse

from .conftest import Run

WANT = "(want cursor, grok, gx, or native)"


def settled(environ: dict[str, str], *arguments: str) -> Options:
    given, others = parse(serve.FLAGS, list(arguments))
    assert others == []
    return Options(**serve.settle(given, environ, "/"))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--continue --load=x", "--continue and --load are mutually exclusive"),
        ("-c --load=", "--continue and --load are mutually exclusive"),
        ("--fast --no-fast", "--fast and --no-fast are mutually exclusive"),
        ("--force --no-force", "--force and --no-force are mutually exclusive"),
        ("--ask --plan", "--ask and --plan are mutually exclusive"),
        (
            "--plugin-dir=/p",
            "--plugin-dir is not served by this version: agents find their own plugins",
        ),
        ("--host-id=x", '--host-id "x" is not twelve lowercase hex digits'),
        ("--host-id=", '--host-id "" is not twelve lowercase hex digits'),
        ("--host-id=0123456789AB", '--host-id "0123456789AB" is not twelve lowercase hex digits'),
        ("--request-id=a", "--request-id and --request-hash go together"),
        ("--request-hash=a", "--request-id and --request-hash go together"),
        ("--request-id=a/b --request-hash=a", '--request-id "a/b" is not 1-64 of [A-Za-z0-9._-]'),
        ("--request-id=a --request-hash=", '--request-hash "" is not 1-128 of [A-Za-z0-9:._-]'),
        ("--load=p:x", f'--load "p:x": unknown provider "p" {WANT}'),
        ("--load=grok:", '--load "grok:" names no session id'),
        ("--load=", '--load "" names no session id'),
        ("--load=a/b", '--load "a/b" is neither a craze session id nor <provider>:<session id>'),
        ("--load=:x", '--load ":x" is neither a craze session id nor <provider>:<session id>'),
        ("--load=..", '--load ".." is neither a craze session id nor <provider>:<session id>'),
        ("--title=\x1b]0;x\x07", "--title needs a character that shows"),
        ("x", "takes no arguments; see craze serve --help"),
        ("--nope", "unknown or malformed flag; see craze serve --help"),
        ("--model", "unknown or malformed flag; see craze serve --help"),
        ("--hub-pid=x", "unknown or malformed flag; see craze serve --help"),
        ("--hub-pid=0", "unknown or malformed flag; see craze serve --help"),
    ],
)
def test_usage_errors_exit_2(run: Run, line: str, text: str) -> None:
    assert run(serve.main, *line.split()) == (2, "", f"craze serve: {text}\n")


def test_a_configuration_that_cannot_be_read_is_told_rather_than_what_it_would_define(
    run: Run, environ: dict[str, str]
) -> None:
    path = f"{environ['HOME']}/.craze/config.toml"
    os.mkdir(os.path.dirname(path))
    for garbage in (
        b"[[[",
        b"\xff\xfe",
        b"x=" + b"[" * 100_000,
        b"a" * (2 << 20),
        b"x=" + b"9" * 6000,
    ):
        with open(path, "wb") as file:
            file.write(garbage)
        code, out, err = run(serve.main, "--provider=mine")
        assert (code, out) == (2, "")
        assert err.startswith(f"craze serve: the control socket is off ({path}: ")


def test_an_unknown_provider(run: Run, environ: dict[str, str]) -> None:
    line = f'craze: unknown provider "x" {WANT}\n'
    assert run(serve.main, "--provider=x") == (2, "", line)
    os.mkdir(f"{environ['HOME']}/.craze")
    config = Path(environ["HOME"], ".craze", "config.toml")
    config.write_text("[providers.mine]\ncommand = ['x']\n")
    line = 'craze: unknown provider "x" (want cursor, grok, gx, native, or mine)\n'
    assert run(serve.main, "--provider=x") == (2, "", line)


@pytest.mark.parametrize("name", ["CRAZE_HOST_CHILD", "CRAZE_READY_FD"])
def test_a_starter_is_told_which_flag(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    reading, writing = os.pipe()
    try:
        monkeypatch.setenv(name, str(writing) if name == "CRAZE_READY_FD" else "1")
        text = "craze serve: unknown or malformed flag --nope; see craze serve --help"
        assert run(serve.main, "--nope=secret") == (2, "", text + "\n")
        assert name not in os.environ
        if name == "CRAZE_READY_FD":
            said = json.loads(os.read(reading, 10_000))
            assert said == {"ok": False, "error": text, "refused": True}
            assert os.read(reading, 1) == b""
            writing = -1
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_a_ready_descriptor_that_is_no_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAZE_READY_FD", "0")
    text = "craze serve: CRAZE_READY_FD is not the descriptor of a pipe\n"
    assert run(serve.main) == (2, "", text)


def test_the_control_socket_is_off(
    run: Run, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAZE_CONTROL_SOCKET", "0")
    assert run(serve.main) == (
        2,
        "",
        "craze serve: the control socket is off (CRAZE_CONTROL_SOCKET=0),"
        " and a headless host is reachable only through it\n",
    )


def test_an_old_configuration_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAZE_CONFIG", "/x")
    code, out, err = run(serve.main)
    assert (code, out) == (2, "")
    assert err.startswith("craze: CRAZE_CONFIG is no longer supported; ")
    code, out, err = run(serve.main, "--help")
    assert (code, err) == (0, "") and out.startswith("NAME\n       craze serve - ")


def test_what_is_wrong_with_the_machine_exits_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "x")
    assert run(serve.main) == (1, "", "craze serve: HOME='x' is not an absolute path\n")


def test_a_workspace_that_is_no_directory(run: Run) -> None:
    assert run(serve.main, "--workspace=/nowhere") == (
        1, "", "craze serve: /nowhere is not a directory\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("named", "good"),
    [
        ("0123456789ab.log", True),
        ("other.log", False),
        ("0123456789ab.pgids", False),
    ],
)
def test_a_log_among_the_hosts_bears_the_hosts_name(
    run: Run, environ: dict[str, str], named: str, good: bool
) -> None:
    folder = f"{environ['HOME']}/.cache/craze/host-logs"
    path = f"{folder}/{named}"
    if good:
        options = settled(environ, "--host-id=0123456789ab", f"--log={path}")
        assert options.log == path
        return
    text = f"craze serve: --log: a log in {folder} must be named 0123456789ab.log\n"
    assert run(serve.main, "--host-id=0123456789ab", f"--log={path}") == (2, "", text)


def test_a_log_elsewhere_may_be_named_anything(environ: dict[str, str]) -> None:
    assert settled(environ, "--log=x/../my.log").log == "/my.log"


# ---- what the host is told ----


def test_no_flags(environ: dict[str, str]) -> None:
    options = settled(environ)
    assert options.paths.home == environ["HOME"]
    assert options.config.idle_exit == 3600
    assert options[2:] == (
        (), "/", False, "cursor", "", "", None, "", True, "", False, None, "", False, "", "",
        True, "", "", None, None,
    )  # fmt: skip


def test_every_flag(environ: dict[str, str]) -> None:
    options = settled(
        environ,
        *("--workspace=tmp/../tmp", "--provider=gx", "--model=m", "--effort=high", "--no-fast"),
        *("--agent-bin=/a", "--no-force", "--plan", "--title=T"),
        *("--unattended", "--host-id=0123456789ab", "--no-host-status", "--request-id=r"),
        *("--request-hash=sha256:0", "--hub-pid=7"),
    )
    expected: dict[str, Any] = {
        "workspace": "/tmp", "workspace_given": True, "provider": "gx", "model": "m",
        "effort": "high", "fast": False, "agent_bin": "/a", "force": False,
        "mode": "plan", "title": "T", "unattended": True, "host_id": "0123456789ab",
        "host_status": False, "request_id": "r", "request_hash": "sha256:0", "hub_pid": 7,
    }  # fmt: skip
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("--fast", "fast", True),
        ("--fast=false", "fast", None),
        ("--force", "force", True),
        ("--force=false", "force", False),
        ("--ask", "mode", "ask"),
        ("-c", "newest", True),
        ("--load=c-1", "load", Load(craze_id="c-1")),
        ("--load=grok:a:b/c", "load", Load(provider="grok", session="a:b/c")),
        ("--load=c-1", "provider", ""),
        ("-c", "provider", ""),
        ("--workspace=~", "workspace", "{HOME}"),
        ("--title=\x1b[1mé", "title", "é"),
        ("--title=", "title", ""),
    ],
)
def test_single_flags(environ: dict[str, str], line: str, field: str, value: object) -> None:
    if value == "{HOME}":
        value = environ["HOME"]
    assert getattr(settled(environ, line), field) == value


def test_the_provider_of_the_environment_and_its_warning(environ: dict[str, str]) -> None:
    assert settled(environ | {"CRAZE_PROVIDER": "grok"}).provider == "grok"
    options = settled(environ | {"CRAZE_PROVIDER": "x"})
    assert options.provider == "cursor"
    assert options.warnings == ('craze: unknown provider "x", using cursor',)
    assert settled(environ | {"CRAZE_PROVIDER": "x"}, "-c").warnings == ()


def test_help_names_every_flag_that_is_no_starters(run: Run) -> None:
    out = run(serve.main, "--help")[1]
    for flag in serve.FLAGS:
        assert (f"--{flag.name}" in out) is not flag.hidden
    assert max(map(len, out.splitlines())) <= 80
