"""What `craze-shed` itself says and how it ends: help, usage errors, signals, stdout gone."""

import contextlib
import inspect
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import gevent
import pytest

import craze
from craze import greenlets
from craze_shed.cli import app, lanes, machines, output

from .conftest import ID, SEED, interrupt

SECRET = "hunter2[bold]"
BIN = Path(sys.executable).parent / "craze-shed"


@pytest.mark.parametrize("line", ["--version", "-v"])
def test_the_bare_version(run, line):
    assert run(line) == (0, f"{craze.__version__}\n", "")


@pytest.mark.parametrize("line,said", [
    (SECRET, "craze-shed: unknown command; see craze-shed --help"),
    ("sesions", 'craze-shed: unknown command; see craze-shed --help (did you mean "sessions"?)'),
    (f"--{SECRET}", "craze-shed: unknown or malformed flag; see craze-shed --help"),
    (f"sessions {SECRET}", "craze-shed sessions: takes no arguments; see craze-shed sessions"
                           " --help"),
    ("sessions --x", "craze-shed sessions: unknown or malformed flag; see craze-shed sessions"
                     " --help"),
    ("sessions -m", "craze-shed sessions: unknown or malformed flag; see craze-shed sessions"
                    " --help"),
    ("watch", "craze-shed watch: no SESSION; see craze-shed watch --help"),
    ("send", "craze-shed send: no SESSION; see craze-shed send --help"),
    ("send x", "craze-shed send: no TEXT; see craze-shed send --help"),
    ("answer x y", "craze-shed answer: no ANSWER; see craze-shed answer --help"),
    ("set x y", "craze-shed set: no VALUE; see craze-shed set --help"),
    (f"history x {SECRET}", "craze-shed history: takes one argument at most (SESSION); see"
                            " craze-shed history --help"),
    (f"set x y z {SECRET}", "craze-shed set: takes three arguments at most (SESSION, SETTING,"
                            " VALUE); see craze-shed set --help"),
])  # fmt: skip
def test_b72_usage_errors_are_one_plain_line_and_exit_2(run, line, said):
    assert run(*line.split()) == (2, "", said + "\n")


@pytest.mark.parametrize("line", ["", "--help", "-h", *(f"{name} --help" for name in app.COMMANDS)])
def test_b72_help_is_a_plain_page(run, line, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = run(*line.split())
    assert (code, err) == (0, "")
    assert out.startswith("NAME\n       craze-shed") and "\nSYNOPSIS\n" in out
    assert out.isascii() and "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "[machines]" in out or line.endswith("--help")


def test_help_lists_every_command_there_is(run):
    out = run("--help")[1]
    for name, summary in app.COMMANDS.items():
        assert f"       {name:<10} {summary}\n" in out
    made = [command.__name__.rstrip("_") for command in (*machines.COMMANDS, *lanes.COMMANDS)]
    assert made == list(app.COMMANDS)
    for command in (*machines.COMMANDS, *lanes.COMMANDS):
        assert {"as_json"} <= set(inspect.signature(command).parameters)


# ---- Ctrl-C ----


@pytest.mark.parametrize("where", ["the command", "another greenlet", "the loop"])
def test_ctrl_c_interrupts_the_command_whoever_runs_when_it_comes(run, source, where):
    press = {
        "the command": interrupt,
        "another greenlet": lambda: _elsewhere(lambda: os.kill(os.getpid(), signal.SIGINT)),
        "the loop": lambda: _in_the_loop(lambda: os.kill(os.getpid(), signal.SIGINT)),
    }
    source.lane.hang = press[where]
    assert run("history", ID) == (130, "", "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_other_signals_that_end_a_program_do_so_in_order(run, source, number):
    source.lane.hang = lambda: _elsewhere(lambda: os.kill(os.getpid(), number))
    assert run("history", ID) == (128 + number, "", "")
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_so(run, source):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    source.lane.hang = lambda: os.kill(os.getpid(), signal.SIGHUP)
    assert run("history", ID)[0] == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signal.signal(signal.SIGHUP, before)


def _elsewhere(press):
    greenlets.spawn("press", press)
    gevent.sleep(60)


def _in_the_loop(press):
    gevent.get_hub().loop.run_callback(press)
    gevent.sleep(60)


# ---- stdout ----


@contextlib.contextmanager
def stdout(fd):
    kept = os.dup(1)
    os.dup2(fd, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def test_a_stdout_that_nobody_reads_ends_a_command_without_a_word(run, source):
    reading, writing = os.pipe()
    os.close(reading)
    with stdout(writing):
        assert run("sessions") == (1, "", "")
        ended = subprocess.run([BIN, "--help"], stderr=subprocess.PIPE)
        assert (ended.returncode, ended.stderr) == (1, b"")
    os.close(writing)


def test_a_stdout_that_takes_nothing_is_a_failure_that_says_so(run, source):
    full = os.open("/dev/full", os.O_WRONLY)
    with stdout(full):
        said = "write stdout: no space left on device\n"
        assert run("sessions") == (1, "", f"craze-shed sessions: {said}")
        ended = subprocess.run([BIN, "sessions", "--help"], stderr=subprocess.PIPE, text=True)
        assert (ended.returncode, ended.stderr) == (1, f"craze-shed sessions: {said}")
    os.close(full)


@pytest.mark.parametrize("line", [("watch", ID), ("sessions", "--watch")])
def test_what_is_watched_ends_when_nobody_reads_though_nothing_happens(run, source, line):
    source.lane.stream = SEED
    reading, writing = os.pipe()
    greenlets.spawn("reader", lambda: (gevent.sleep(0.1), os.close(reading)))
    with stdout(writing):
        assert run(*line) == (1, "", "")
    os.close(writing)
    assert all(publisher.is_closed() for publisher in source.lane.subscriptions)


def test_a_reader_that_stays_ends_nothing():
    reading, writing = os.pipe()
    gone = []
    with stdout(writing), output.read_by_somebody(lambda: gone.append(1)):
        os.write(1, b"x" * 1000)
        gevent.sleep(0.05)
    for fd in (reading, writing):
        os.close(fd)
    assert gone == []


# ---- progress ----


def test_what_is_waited_for_is_said_on_a_terminal_alone_and_taken_away(run, source):
    assert run("history", ID)[2] == ""
    leader, terminal = pty.openpty()
    kept = os.dup(2)
    os.dup2(terminal, 2)
    try:
        app.main(["history", ID, "-m", "ssh:a-host"])
    finally:
        os.dup2(kept, 2)
    said = b""
    while said.count(b"\x1b[K") < 2:  # a terminal gives what it has in pieces
        said += os.read(leader, 65536)
    for fd in (kept, leader, terminal):
        os.close(fd)
    assert said.decode() == "connecting to ssh:a-host…\r\x1b[Kreading the transcript…\r\x1b[K"


# ---- as a program ----


def test_the_program_and_the_module_are_the_same():
    expected = f"{craze.__version__}\n".encode()
    assert subprocess.check_output([BIN, "--version"]) == expected
    assert subprocess.check_output([sys.executable, "-m", "craze_shed", "-v"]) == expected
    failed = subprocess.run([BIN, "nonsense"], capture_output=True)
    assert (failed.returncode, failed.stdout) == (2, b"")
    assert failed.stderr == b"craze-shed: unknown command; see craze-shed --help\n"


def test_a_program_whose_stdout_is_closed_ends_in_a_line():
    ended = subprocess.run(
        [BIN, "--version"], stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1)
    )
    assert ended.stderr == b"craze-shed: write stdout: bad file descriptor\n"
    assert ended.returncode == 1


STARTED = """
import json, os, sys
from craze_shed import __main__ as entry


class App:
    def main(self, arguments):
        from gevent import monkey
        from craze_shed.cli import reaching

        patched = monkey.is_module_patched("socket")
        print(json.dumps([arguments, patched, entry.PATCHED in os.environ]), flush=True)
        if arguments and not patched:
            raise reaching.NeedsPatching
        return 0


sys.modules["craze_shed.cli.app"] = App()
entry.main()
"""


@pytest.mark.parametrize("arguments,starts", [([], 1), (["-m", "paramiko:h [x]"], 2)])
def test_b53_a_program_that_must_be_patched_starts_again_and_is_first_thing(
    tmp_path, arguments, starts
):
    script = tmp_path / "craze shed"
    script.write_text(STARTED)
    ended = subprocess.run(
        [sys.executable, "-P", script, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert told == [[arguments, False, False], [arguments, True, False]][:starts]
