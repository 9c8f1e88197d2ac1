"""Reaching a hub: what was run, what came of it, and when a hub may be started."""

from typing import Any

import gevent
import pytest

from craze_shed.contract import errors
from craze_shed.craze import limits
from craze_shed.craze.dial import FAILED, TIMED_OUT, Dialer, Hub, NotReached
from ladder import Kind
from tests.unit.shed.craze.hosts import HUB, hello
from tests.unit.shed.craze.scripting import Command
from tests.unit.shed.craze.test_lane import Doing

PROBE, BRIDGE, NO_START = "providers --hub --json", "bridge --hub", "bridge --hub --no-start"
OLD = b"craze bridge: unknown or malformed flag\n"


def asked(command: Command) -> str:
    """What craze was run with."""
    for words in (PROBE, NO_START, BRIDGE):
        if f' "$craze_bin" {words};' in command.line:
            return words
    raise AssertionError(command.line)


class Dialling:
    """A dial in a greenlet of its own."""

    def __init__(self, dialer: Dialer, **options: Any) -> None:
        self._doing = Doing(lambda: self._dial(dialer, options))

    def _dial(self, dialer: Dialer, options: dict[str, Any]) -> Any:
        try:
            return dialer.connect(**options)
        except NotReached as failure:
            return failure

    def hub(self) -> Hub:
        made = self._doing.result()
        assert isinstance(made, Hub), made
        return made

    def failure(self) -> NotReached:
        made = self._doing.result()
        assert isinstance(made, NotReached), made
        return made


def greet(command: Command, **changes: Any) -> None:
    command.reply(command.expect("hello"), hello("hub", **changes))


@pytest.fixture
def eager(reach):
    return Dialer(reach, eager=True)


def test_a_hub_that_answers(reach, dialer):
    dialling = Dialling(dialer)
    command = reach.next()
    request = command.expect("hello")
    assert request["params"] == {
        "protocols": [1],
        "client": {"kind": "shed", "name": "craze_shed", "version": "0.2.0"},
    }
    command.reply(request, hello("hub"))
    hub = dialling.hub()
    assert (hub.id, hub.version, hub.can("reopen"), hub.can("novelty")) == (
        HUB,
        "0.2.0",
        True,
        False,
    )
    assert not command.closed
    hub.connection.close()
    command.left()


@pytest.mark.parametrize(
    ("own", "explicit", "words"),
    [(False, False, NO_START), (False, True, BRIDGE), (True, False, BRIDGE), (True, True, BRIDGE)],
)
def test_what_may_start_a_hub(reach, own, explicit, words):
    dialling = Dialling(Dialer(reach, eager=own), explicit=explicit)
    command = reach.next()
    assert asked(command) == words
    greet(command)
    dialling.hub().connection.close()


# ---- before hello ----


@pytest.mark.parametrize(
    ("code", "said", "kind", "text"),
    [
        (
            127, b"craze: command not found\n", Kind.NOT_INSTALLED,
            "craze is not installed on this machine (craze: command not found)",
        ),
        (127, b"unknown flag: --hub", Kind.NOT_INSTALLED, None),  # the exit code wins
        (
            1, b"Error: unknown flag: --hub\n", Kind.TOO_OLD,
            'craze on this machine is too old for shed (it says "Error: unknown flag: --hub");'
            " update craze",
        ),
        (3, b"craze bridge: no hub is running\n", Kind.NO_HUB, "craze bridge: no hub is running"),
        (1, b"craze bridge: no hub is running\n", Kind.UNREACHABLE, None),
        (
            255, b"ssh: no route\n", Kind.UNREACHABLE,
            "craze closed the connection; craze said: ssh: no route",
        ),
        (None, b"", Kind.UNREACHABLE, "craze closed the connection"),
    ],
)  # fmt: skip
def test_a_command_that_ends_before_its_hello(reach, dialer, code, said, kind, text):
    dialling = Dialling(dialer)
    command = reach.next()
    command.expect("hello")
    command.end(code, said)
    failure = dialling.failure()
    assert failure.kind == kind and text in (None, str(failure))
    command.left()


def test_what_the_login_shell_printed_is_told(reach, dialer):
    dialling = Dialling(dialer)
    command = reach.next()
    command.feed(b"motd\r\nquota exceeded\n")
    command.expect("hello")
    command.end(1, b"killed")
    assert str(dialling.failure()) == (
        "craze closed the connection; craze said: killed;"
        " before it, the login shell printed: quota exceeded"
    )


def test_a_command_that_ends_before_it_is_asked(reach, dialer):
    """It reads no hello, which then cannot be written: the exit code says why all the same."""
    reach.serve = lambda command: command.end(127, b"craze: command not found")
    assert Dialling(dialer).failure().kind == Kind.NOT_INSTALLED


def test_a_machine_that_cannot_be_reached(reach, dialer):
    reach.unreachable = "no route to host"
    failure = Dialling(dialer).failure()
    assert (failure.kind, str(failure)) == (Kind.UNREACHABLE, "machine: no route to host")


def test_a_machine_that_does_not_answer(dialer, reach, monkeypatch):
    monkeypatch.setattr(reach, "run", lambda line: gevent.sleep(60))
    failure = Dialling(dialer, timeout=0.01).failure()
    assert (failure.kind, str(failure)) == (TIMED_OUT, "machine did not answer within 0.01s")


def test_a_hub_that_does_not_answer(reach, dialer, monkeypatch):
    monkeypatch.setattr(limits, "HELLO", 0.01)
    failure = Dialling(dialer).failure()
    assert (failure.kind, str(failure)) == (TIMED_OUT, "craze did not answer hello within 0.01s")
    reach.next().left()


def test_one_that_does_not_end_is_not_waited_for(reach, dialer, monkeypatch):
    monkeypatch.setattr(limits, "EXIT", 0.01)
    dialled = Dialling(dialer)
    command = reach.next()
    command.feed(b"\n" * 17)
    assert str(dialled.failure()) == ("too much was printed before craze answered")
    command.left()
    assert command.half_closed


def test_a_callers_own_timeout_lets_go_of_everything(reach, dialer):
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        dialer.connect()
    reach.next().left()


def test_a_connection_that_ends_with_its_hello_is_let_go_of(reach, dialer):
    dialled = Dialling(dialer)
    command = reach.next()
    greet(command)
    command.end(0)
    hub = dialled.hub()
    command.left()
    hub.connection.close()


# ---- hello ----


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        (
            {"endpoint": {"kind": "host", "hostId": HUB}}, FAILED,
            'expected craze\'s hub to answer, got a "host" endpoint',
        ),
        ({"endpoint": 5}, FAILED, 'expected craze\'s hub to answer, got a "None" endpoint'),
        (
            {"protocol": 2}, Kind.TOO_OLD,
            "craze answered protocol 2, shed speaks 1; update craze",
        ),
        (
            {"codecs": {"event": 2, "snapshot": 1}}, Kind.TOO_OLD,
            "craze's codecs are event 2 and snapshot 1, shed folds event 1 and snapshot 1;"
            " update shed or craze",
        ),
        (
            {"codecs": None}, Kind.TOO_OLD,
            "craze's codecs are unstated, shed folds event 1 and snapshot 1; update shed or craze",
        ),
        (
            {"capabilities": {"rosterSubscribe": True}}, Kind.TOO_OLD,
            "craze's hub on this machine (0.2.0) cannot list or reach sessions"
            " (rosterSubscribe true, connect false); update craze",
        ),
        (
            {"capabilities": {}, "endpoint": {"kind": "hub"}}, Kind.TOO_OLD,
            "craze's hub on this machine (version unknown) cannot list or reach sessions"
            " (rosterSubscribe false, connect false); update craze",
        ),
    ],
)  # fmt: skip
def test_a_hello_that_will_not_do(reach, dialer, changes, kind, text):
    dialled = Dialling(dialer)
    command = reach.next()
    greet(command, **changes)
    failure = dialled.failure()
    assert (failure.kind, str(failure)) == (kind, text)
    command.left()


@pytest.mark.parametrize(
    ("refusal", "kind", "text"),
    [
        (
            {"code": "bad_request", "reason": "protocol_version", "result": {"supported": [2, 3]}},
            Kind.TOO_OLD,
            "craze on this machine shares no protocol with shed"
            " (shed speaks [1], craze answered [2, 3]); update craze",
        ),
        (
            {"code": "unavailable", "reason": "closing", "message": "the hub is closing"},
            FAILED,
            "craze refused hello: the hub is closing (unavailable/closing)",
        ),
    ],
)
def test_a_refused_hello(reach, dialer, refusal, kind, text):
    dialled = Dialling(dialer)
    command = reach.next()
    command.refuse(command.expect("hello"), **refusal)
    failure = dialled.failure()
    assert (failure.kind, str(failure)) == (kind, text)
    command.left()


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        (Kind.NOT_INSTALLED, "unavailable"),
        (Kind.UNREACHABLE, "unavailable"),
        (Kind.NO_HUB, "unavailable"),
        (TIMED_OUT, "unavailable"),
        (Kind.TOO_OLD, "failed"),
        (FAILED, "failed"),
    ],
)
def test_as_an_error(kind, variant):
    assert NotReached(kind, "why").error() == errors.LaneError(variant, "why")


# ---- an older craze ----


def refuse_the_flag(reach, dialer) -> Dialling:
    """Have a dial find that craze knows no --no-start."""
    dialled = Dialling(dialer)
    command = reach.next()
    assert asked(command) == NO_START
    command.expect("hello")
    command.end(1, OLD)
    return dialled


def test_an_older_craze_is_probed_and_then_joined(reach, dialer):
    dialled = refuse_the_flag(reach, dialer)
    probe = reach.next()
    assert asked(probe) == PROBE
    probe.feed(b"motd\n{}\n")
    probe.end(0)
    bridge = reach.next()
    assert asked(bridge) == BRIDGE
    greet(bridge)
    dialled.hub().connection.close()
    probe.left()


def test_from_then_on_every_dial_probes_first(reach, dialer):
    refuse_the_flag(reach, dialer)
    reach.next().end(1, b"no hub is running")
    for _ in range(2):
        dialled = Dialling(dialer)
        probe = reach.next()
        assert asked(probe) == PROBE
        probe.end(1, b"craze providers: no hub is running\n")
        failure = dialled.failure()
        assert (failure.kind, str(failure)) == (
            Kind.NO_HUB,
            "no craze hub is running on machine; shed starts one there only when you ask it to",
        )
    explicit = Dialling(dialer, explicit=True)
    bridge = reach.next()
    assert asked(bridge) == BRIDGE
    greet(bridge)
    explicit.hub().connection.close()


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (127, b"", Kind.NOT_INSTALLED),
        (1, b"unknown flag: --hub", Kind.TOO_OLD),
        (255, b"no route", Kind.UNREACHABLE),
    ],
)
def test_a_probe_that_finds_no_craze(reach, dialer, code, said, kind):
    dialled = refuse_the_flag(reach, dialer)
    reach.next().end(code, said)
    assert dialled.failure().kind == kind


def test_a_flag_that_was_not_given_is_not_the_older_crazes(reach, eager):
    dialled = Dialling(eager)
    command = reach.next()
    command.expect("hello")
    command.end(1, OLD)
    assert dialled.failure().kind == Kind.UNREACHABLE
    assert len(reach.commands) == 1


# ---- the probe ----


@pytest.mark.parametrize(
    ("code", "printed", "said", "kind", "text"),
    [
        (0, b'{"providers":[]}\n', b"", Kind.HUB, ""),
        (0, b"motd\n\n{}\n\n", b"", Kind.HUB, ""),
        (0, b"[]\n", b"", Kind.UNREACHABLE, "craze providers --hub exited 0"),
        (1, b"{}\n", b"boom\n", Kind.UNREACHABLE, "craze providers --hub exited 1: boom"),
        (5, b"", b"no hub is running\n", Kind.NO_HUB, None),
        (127, b"{}\n", b"no hub is running", Kind.NOT_INSTALLED, None),
        (2, b"", b"unknown flag: --hub", Kind.TOO_OLD, None),
        (None, b"{}\n", b"", Kind.UNREACHABLE, "craze providers --hub gave no exit code"),
    ],
)
def test_the_probe(reach, dialer, code, printed, said, kind, text):
    doing = Doing(dialer.probe)
    command = reach.next()
    if printed:
        command.feed(printed)
    command.end(code, said)
    found = doing.result()
    assert found.kind == kind and text in (None, found.text)
    command.left()


def test_a_probe_that_does_not_end(reach, dialer):
    assert dialer.probe(0.01) == (
        Kind.UNREACHABLE,
        "craze providers --hub did not end within 0.01s",
    )
    reach.next().left()


def test_a_probe_that_never_begins(reach, dialer, monkeypatch):
    monkeypatch.setattr(reach, "run", lambda line: gevent.sleep(60))
    assert dialer.probe(0.01).kind == Kind.UNREACHABLE


def test_a_probe_of_a_machine_that_cannot_be_reached(reach, dialer):
    reach.unreachable = "no route"
    assert dialer.probe() == (Kind.UNREACHABLE, "machine: no route")


def test_b65_a_probe_that_prints_without_end_is_bounded(reach, dialer, monkeypatch):
    monkeypatch.setattr(limits, "EXIT", 0.01)
    monkeypatch.setattr(limits, "PROBE_OUTPUT", 100_000)

    def flood(command: Command) -> None:
        while True:
            command.feed(b"x" * 65536)

    reach.serve = flood
    doing = Doing(dialer.probe)
    assert doing.result().kind == Kind.UNREACHABLE
    reach.failures.clear()  # it wrote to nobody
