"""The machine that is played, held to what the real ones do."""

from collections.abc import Iterator

import gevent
import pytest

from craze_shed.reach import ReachError, ScriptedReach
from craze_shed.reach.scripted import Peer
from tests.unit.shed.reach_suite import ForwardSuite, ReachSuite, all_of, play


@pytest.fixture
def machine() -> Iterator[ScriptedReach]:
    with ScriptedReach(play) as machine:
        yield machine


class TestScripted(ReachSuite):
    """The suite."""


def echo_or_refuse(line: str, peer: Peer) -> int:
    if line == "127.0.0.1:7":
        while data := peer.recv(65536):
            peer.sendall(data)
    return 0


class TestForwards(ForwardSuite):
    """The ports."""

    @pytest.fixture
    def machine(self) -> Iterator[ScriptedReach]:
        with ScriptedReach(echo_or_refuse) as machine:
            yield machine

    @pytest.fixture
    def echoing(self) -> int:
        return 7

    @pytest.fixture
    def refusing(self) -> int:
        return 9


def test_b49_a_command_may_end_without_an_exit_code() -> None:
    with ScriptedReach(lambda line, peer: None) as machine, machine.run("x") as running:
        assert all_of(running) == b""
        assert running.exit(20) is None


def test_b36_output_may_end_while_the_command_runs_and_speaks() -> None:
    def player(line: str, peer: Peer) -> int:
        peer.sendall(b"last")
        peer.close_output()
        while True:
            peer.say(b"and on")
            gevent.sleep(0.01)

    with ScriptedReach(player) as machine, machine.run("x") as running:
        assert all_of(running) == b"last"
        assert running.exit(0.05) is None
        assert running.stderr.startswith(b"and on")


def test_it_says_what_was_run() -> None:
    with ScriptedReach(lambda line, peer: 0, label="box") as machine:
        machine.run("one").close()
        machine.run("two").close()
        assert machine.lines == ["one", "two"]


def test_it_can_be_out_of_reach() -> None:
    with ScriptedReach(lambda line, peer: 0, label="box") as machine:
        machine.unreachable = "no route to host"
        with pytest.raises(ReachError, match=r"^box: no route to host$"):
            machine.run("x")
        machine.unreachable = ""
        machine.run("x").close()
