"""What `craze` itself says: help, version, usage errors; never a traceback, a box or an echo."""

import inspect
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import craze
from craze.cli import app, new, ps
from craze.terminal import manual

from .conftest import Run

SECRET = "hunter2[bold]"


@pytest.mark.parametrize("line", ["version", "--version", "-v"])
def test_the_bare_version(run: Run, line: str) -> None:
    assert run(app.main, *line.split()) == (0, f"{craze.__version__}\n", "")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"{SECRET}", "craze: unknown command; see craze --help"),
        ("brigde", 'craze: unknown command; see craze --help (did you mean "bridge"?)'),
        ("pss", 'craze: unknown command; see craze --help (did you mean "ps"?)'),
        ("nwe x", 'craze: unknown command; see craze --help (did you mean "new"?)'),
        ("hubb", "craze: unknown command; see craze --help"),
        ("versio x", 'craze: unknown command; see craze --help (did you mean "version"?)'),
        (f"--{SECRET}", "craze: unknown or malformed flag; see craze --help"),
        ("-x", "craze: unknown or malformed flag; see craze --help"),
        ("--version=x", "craze: unknown or malformed flag; see craze --help"),
        (f"version {SECRET}", "craze version: takes no arguments; see craze version --help"),
        ("version --x", "craze version: unknown or malformed flag; see craze version --help"),
        ("", "craze: refusing to start TUI on a non-tty"),
    ],
)  # fmt: skip
def test_b72_usage_errors_are_one_plain_line_and_exit_2(run: Run, line: str, text: str) -> None:
    assert run(app.main, *line.split()) == (2, "", text + "\n")


def test_an_old_configuration_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAZE_CONFIG", " /x ")
    assert run(app.main, "version") == (
        2,
        "",
        "craze: CRAZE_CONFIG is no longer supported; unset it and set CRAZE_HOME to the directory"
        " that holds config.toml instead (it defaults to ~/.craze)\n",
    )
    for line in ("--version", "--help", "version --help"):
        code, out, err = run(app.main, *line.split())
        assert (code, err) == (0, "") and out
    monkeypatch.setenv("CRAZE_CONFIG", "  ")
    assert run(app.main, "version")[0] == 0


PAGES = ("version", "ps", "new", "providers", "completion")


@pytest.mark.parametrize("line", ["--help", "-h", *(f"{name} --help" for name in PAGES), "ps -h"])
def test_b72_help_is_a_plain_page(run: Run, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = run(app.main, *line.split())
    assert (code, err) == (0, "")
    assert out.startswith("NAME\n       craze") and "\nSYNOPSIS\n" in out and "\nOPTIONS\n" in out
    assert out.isascii() and "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_lists_every_command(run: Run) -> None:
    out = run(app.main, "--help")[1]
    for name, summary in app.COMMANDS.items():
        assert f"       {name:<10} {summary}\n" in out
    assert "hub" not in app.COMMANDS and "       hub" not in out


def test_the_commands_page_has_every_command_and_the_flags_of_those_it_describes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    for name in app.COMMANDS:
        assert f"| `craze {name}` |" in page
    for command in (new.new, ps.ps):
        part = page.partition(f"\n## craze {command.__name__}\n")[2].partition("\n## ")[0]
        for parameter in inspect.signature(command).parameters.values():
            for flag in getattr(parameter.default, "param_decls", ()):
                assert f"`{flag}" in part, flag


def test_b72_brackets_stay_in_a_page() -> None:
    page = manual.Page("x", "y", ["x [FLAG]"], "Set [agents].cursor, or [/x].", (), ())
    assert "Set [agents].cursor, or [/x].\n" in manual.render(page)


# ---- as a program ----

BIN = Path(sys.executable).parent / "craze"


def program(*arguments: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([BIN, *arguments], capture_output=True, **options)  # type: ignore[call-overload,no-any-return]


def test_the_program_and_the_module_are_the_same(environ: dict[str, str]) -> None:
    expected = f"{craze.__version__}\n".encode()
    assert program("version", stdin=subprocess.DEVNULL).stdout == expected
    assert subprocess.check_output([sys.executable, "-m", "craze", "version"]) == expected
    failed = program("nonsense", stdin=subprocess.DEVNULL)
    assert (failed.returncode, failed.stdout) == (2, b"")
    assert failed.stderr == b"craze: unknown command; see craze --help\n"
    assert program("bridge", "--nonsense").returncode == 1


def test_on_a_terminal_it_shows_its_help(environ: dict[str, str]) -> None:
    leader, terminal = pty.openpty()
    try:
        process = subprocess.Popen([BIN], stdin=terminal, stdout=terminal, stderr=terminal)
        shown = b""
        while b"CRAZE_CONFIG" not in shown:
            shown += os.read(leader, 65536)
        assert shown.startswith(b"NAME\r\n")
        assert process.wait() == 0
    finally:
        os.close(leader)
        os.close(terminal)


TITLE = """
import os, sys, time
sys.argv = ["/opt/craze/bin/craze", "serve", "--title=x y"]
from craze.machine import title
title.show("craze")
print("SPT_NOENV" in os.environ, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_the_title_is_the_path_and_the_arguments_and_the_environment_stays_readable(
    tmp_path: Path,
) -> None:
    script = tmp_path / "a script with a long name"
    script.write_text(TITLE)
    environ = {"A": "b" * 300, "MARK": "x", "PATH": os.environ["PATH"]}
    process = subprocess.Popen(
        [sys.executable, script, "serve", "--title=x y"], env=environ, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == b"False\n"
        folder = Path(f"/proc/{process.pid}")
        title = (folder / "cmdline").read_bytes().rstrip(b"\0")
        assert title == b"/opt/craze/bin/craze serve --title=x y"
        assert (folder / "comm").read_text() == "craze\n"
        found = (folder / "environ").read_bytes().split(b"\0")
        assert {b"A=" + b"b" * 300, b"MARK=x"} <= set(found)
        process.kill()
    process.wait()


PLUG = """
import os, sys
from craze import __main__
for fd, flags in enumerate(__main__._PLUGS):
    __main__._plug(fd, flags)
fd = os.open("/etc/passwd", os.O_RDONLY)
os.write(int(sys.argv[1]), f"{fd} {os.readlink('/proc/self/fd/0')}".encode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_a_closed_descriptor_is_never_somebody_elses() -> None:
    reading, writing = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-c", PLUG, str(writing)],
            pass_fds=[writing],
            preexec_fn=lambda: (os.close(0), os.close(1), os.close(2)),
        )
        fd, stdin = os.read(reading, 1000).split()
        assert int(fd) > 2 and stdin == b"/dev/null"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
@pytest.mark.parametrize("line", ["version", "--help", "serve --help", "bridge --help"])
def test_a_stdout_that_takes_nothing_is_one_line_and_exit_1(
    environ: dict[str, str], line: str
) -> None:
    command = [sys.executable, "-m", "craze", *line.split()]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, env=environ, stdout=full, stderr=subprocess.PIPE)
    path = "craze" if line in ("version", "--help") else f"craze {line.split()[0]}"
    assert ended.stderr.decode() == f"{path}: write stdout: no space left on device\n"
    assert ended.returncode == 1
