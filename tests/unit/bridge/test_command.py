"""Which session a bridge is to, and the one line it says when there is none."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from craze.bridge import command
from craze.client import hubs
from craze.machine import reexec, registry, sockets
from craze.machine.hubs import Record
from craze.machine.paths import Paths

ONE, TWO = "aaaa00000001", "bbbb00000002"
UNKNOWN = "craze bridge: unknown or malformed flag; see craze bridge --help"
BOTH = (
    "craze bridge: --hub and --session cannot be used together:"
    " the hub's session.connect names the session"
)


@pytest.fixture(autouse=True)
def here(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CRAZE_CONFIG", raising=False)
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line that a bridge with these arguments says on stderr as it fails."""

    def run(*arguments: str, code: int = 1) -> str:
        assert command.main(list(arguments)) == code
        out, err = capfd.readouterr()
        assert out == ""
        assert err.endswith("\n") and err.count("\n") == 1
        return err.removesuffix("\n")

    return run


def test_no_session(said: Callable[..., str]) -> None:
    assert said() == "craze bridge: no session running"
    assert said("--session", "abcd") == "craze bridge: no session abcd"


def test_several_sessions(said: Callable[..., str], listed: Callable[..., object]) -> None:
    listed(TWO, "s-000000cdef", provider="grok", workspace="/w/two")
    listed(ONE, provider="cursor", workspace="/w/one", stopping=True)
    hosts = f"{ONE} (cursor, /w/one), s-000000cdef (grok, /w/two)"
    assert said() == f"craze bridge: 2 sessions running; pass --session <id>: {hosts}"
    assert said("--session=nope") == "craze bridge: no session nope"


def test_an_ambiguous_session(said: Callable[..., str], listed: Callable[..., object]) -> None:
    listed(ONE, "s-000001cdef", provider="grok", workspace="/w/one")
    listed(TWO, "s-000002cdef", provider="grok", workspace="/w/two")
    assert said("--session", "cdef") == (
        "craze bridge: 2 sessions match --session cdef:"
        " s-000001cdef (grok, /w/one), s-000002cdef (grok, /w/two)"
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("", '""'),
        (".", '"."'),
        ("a/b", '"a/b"'),
        ("é", '"é"'),
        ("a b", '"a b"'),
        ("x" * 129, f'"{"x" * 129}"'),
        ('"', '"\\""'),
        ("\x1b]0;x\x07", '"\\x1b]0;x\\a"'),
    ],
)
def test_a_malformed_session(said: Callable[..., str], given: str, shown: str) -> None:
    line = f"craze bridge: --session {shown} is not a valid session id"
    assert said("--session", given) == said(f"--session={given}") == line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--sesion=x"], UNKNOWN),
        (["--session"], UNKNOWN),
        (["-s", "secret"], UNKNOWN),
        (["--no-start"], "craze bridge: --no-start needs --hub"),
        (["--no-start", "--session=x"], "craze bridge: --no-start needs --hub"),
        (["--hub=false", "--no-start"], "craze bridge: --no-start needs --hub"),
        (["--hub", "--session", "x"], BOTH),
        (["--session=", "--no-start", "--hub"], BOTH),
        (["--hub", "secret"], "craze bridge: takes no arguments; see craze bridge --help"),
        (["secret"], "craze bridge: takes no arguments; see craze bridge --help"),
        (["--", "-x"], "craze bridge: takes no arguments; see craze bridge --help"),
    ],
)
def test_usage_errors_exit_1_too(said: Callable[..., str], arguments: list[str], line: str) -> None:
    assert said(*arguments) == line


def test_an_old_configuration_variable(
    said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAZE_CONFIG", "/x")
    assert said() == (
        "craze bridge: CRAZE_CONFIG is no longer supported; unset it and set CRAZE_HOME to the"
        " directory that holds config.toml instead (it defaults to ~/.craze)"
    )
    assert command.main(["--help"]) == 0


def test_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["-h"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("NAME\n       craze bridge - ") and err == ""
    assert "--session=ID" in out and "--hub\n" in out and "--no-start\n" in out
    assert max(map(len, out.splitlines())) <= 80


def test_b26_an_unreachable_session(
    said: Callable[..., str], listed: Callable[..., registry.Listing], environ: dict[str, str]
) -> None:
    listing = listed(ONE, "s-1")
    listing.listener.close()
    line = "craze bridge: session s-1 is unreachable: "
    assert said() == line + "connection refused"
    os.unlink(listing.socket)
    assert said("--session=s-1") == line + "no such file or directory"
    with sockets.bind(listing.socket):
        path = Paths.of(environ).entry(ONE)
        with open(path, "wb") as entry:
            entry.write(registry.encode(listing.entry._replace(socket="/" + "é" * 60)))
        assert said() == line + "AF_UNIX path too long"


def test_an_entry_that_cannot_be_read(
    said: Callable[..., str], listed: Callable[..., object], environ: dict[str, str]
) -> None:
    listed(ONE, "s-1")
    listed(TWO, "s-2")
    entry = Paths.of(environ).entry(ONE)
    os.unlink(entry)
    os.mkdir(entry)
    line = f"craze bridge: the registry entry of the live host {ONE} cannot be read"
    assert said() == said("--session=s-1") == line
    os.rmdir(entry)


def test_a_registry_that_others_can_reach(
    said: Callable[..., str], listed: Callable[..., object], environ: dict[str, str]
) -> None:
    listed(ONE)
    hosts = Paths.of(environ).hosts
    os.chmod(hosts, 0o755)
    assert said() == (
        f"craze bridge: {hosts} has mode 0755, and 0700 is required; craze never changes it"
        f" (chmod 700 it or remove it)"
    )
    os.chmod(hosts, 0o700)


def test_no_home(said: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "x")
    line = "HOME='x' is not an absolute path"
    assert said() == f"craze bridge: {line}"
    assert said("--hub") == said("--hub", "--no-start") == f"craze bridge: no hub: {line}"


def test_b71_b72_what_hosts_say_of_themselves_does_nothing_to_a_terminal(
    said: Callable[..., str], listed: Callable[..., object]
) -> None:
    listed(ONE, provider="\x1b]52;c;aGk=\x07gr[bold]ok[/x]", workspace="/w\x1b[2J/\x9b31mone\u202e")
    listed(TWO, provider="[agents].cursor", workspace="/w\n/two\r\t.")
    assert said() == (
        f"craze bridge: 2 sessions running; pass --session <id>:"
        f" {ONE} (gr[bold]ok[/x], /w/one), {TWO} ([agents].cursor, /w /two .)"
    )


# ---- the hub ----


def test_no_hub_is_an_exit_of_its_own(said: Callable[..., str], environ: dict[str, str]) -> None:
    assert said("--hub", "--no-start", code=3) == "craze bridge: no hub is running"
    assert os.listdir(environ["HOME"]) == []  # nothing was started, and nothing made
    assert said("--hub", "--no-start", "--session=x") == BOTH


def test_a_hub_that_cannot_be_started(
    said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reexec, "_prefix", ["/nowhere/craze"])
    line = "craze bridge: no hub: start craze hub: /nowhere/craze is not there any more"
    assert said("--hub") == line


@pytest.mark.parametrize("flags", [[], ["--no-start"]])
def test_b26_a_hub_that_is_found_and_cannot_be_dialled(
    said: Callable[..., str], flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = hubs.Hub("/" + "é" * 60, Record(1, ONE, "", 1, "", "", "", ""), {})
    monkeypatch.setattr(hubs, "find", lambda _: hub)
    monkeypatch.setattr(hubs, "find_or_start", lambda *_: hub)
    line = "craze bridge: the hub is unreachable: AF_UNIX path too long"
    assert said("--hub", *flags) == line


def test_a_hub_that_does_not_answer(
    said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> hubs.Hub:
        raise hubs.HubError("the hub (pid 7) does not answer")

    monkeypatch.setattr(hubs, "find", fail)
    monkeypatch.setattr(hubs, "find_or_start", fail)
    line = "craze bridge: no hub: the hub (pid 7) does not answer"
    assert said("--hub", "--no-start") == said("--hub") == line
