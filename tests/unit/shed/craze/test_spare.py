"""A connection made ahead: who gets it, when there is another, and what becomes of one gone bad."""

import gevent
import pytest

from craze_shed.contract import frames
from craze_shed.craze.dial import Dialer
from craze_shed.craze.lane import CrazeLane
from craze_shed.craze.spare import Spare
from tests.unit.shed.craze.conftest import QUICK
from tests.unit.shed.craze.hosts import HOST, Host, hello
from tests.unit.shed.craze.scripting import Command, settle, until
from tests.unit.shed.craze.test_dial import NO_START, asked


@pytest.fixture
def spare(reach):
    made = Spare(Dialer(reach, eager=False), pause=0)
    yield made
    made.drop()


def kept(spare: Spare, reach) -> Command:
    """Its next connection, hello said."""
    spare.keep()
    command: Command = reach.next()
    assert asked(command) == NO_START  # it starts no hub
    return command


def greeted(command: Command) -> Command:
    command.reply(command.expect("hello"), hello("hub"))
    return command


def test_it_is_made_once_and_given_away_once(spare, reach):
    one = greeted(kept(spare, reach))
    until(lambda: spare.there)
    spare.keep()
    hub = spare.take(0)
    assert spare.take(0) is None
    hub.connection.close()
    assert one.left()


def test_after_one_was_taken_another_is_made(spare, reach):
    greeted(kept(spare, reach))
    first = until(lambda: spare.take(0))
    greeted(reach.next())
    second = until(lambda: spare.take(0))
    assert first is not second
    for hub in (first, second):
        hub.connection.close()


def test_another_is_made_after_a_pause(reach):
    spare = Spare(Dialer(reach, eager=False), pause=60.0)
    greeted(kept(spare, reach))
    until(lambda: spare.take(0)).connection.close()
    settle()
    assert len(reach.commands) == 1
    spare.drop()


def test_one_on_its_way_is_waited_for(spare, reach):
    command = kept(spare, reach)
    taker = gevent.spawn(spare.take, 10)
    settle()
    assert not taker.ready()
    greeted(command)
    taker.get().connection.close()


def test_it_is_waited_for_only_so_long(spare, reach):
    command = kept(spare, reach)
    assert spare.take(0.01) is None
    greeted(command)
    until(lambda: spare.there)
    settle()
    assert reach.commands == [command]
    spare.take(0).connection.close()  # it is for whoever comes next
    assert command.left()


def test_none_that_can_be_made_is_none_and_tried_for_again_when_asked_for(spare, reach):
    command = kept(spare, reach)
    command.end(3, b"craze bridge: no hub is running\n")
    assert spare.take(10) is None
    greeted(reach.next())
    until(lambda: spare.take(0)).connection.close()


def test_dropped_it_lets_go_of_its_connection_or_its_dial(spare, reach):
    one = greeted(kept(spare, reach))
    until(lambda: spare.there)
    spare.drop()
    spare.drop()
    assert one.left()
    assert spare.take(0) is None
    two = kept(spare, reach)
    taker = gevent.spawn(spare.take, 10)
    settle()
    spare.drop()
    assert two.left()
    assert taker.get() is None


def watched(reach, spare: Spare):
    return CrazeLane(Dialer(reach, eager=False), HOST, spare=spare.take, bounds=QUICK).subscribe()


def test_a_lane_is_opened_through_it_and_joins_again_without(spare, reach):
    command = greeted(kept(spare, reach))
    with watched(reach, spare) as stream:
        host = Host(command).splice()
        host.seed(1)
        until(lambda: isinstance(stream.next(), frames.Ready))
        greeted(reach.next())
        until(lambda: spare.there)
        command.end()
        Host(reach.next()).greet().attach()  # a connection from its hello on
        assert spare.there


def test_one_that_went_bad_costs_a_lane_nothing_but_the_dial(reach):
    spare = Spare(Dialer(reach, eager=False), pause=60.0)
    command = greeted(kept(spare, reach))
    hub = until(lambda: spare._hub)
    command.end(255, b"gone\n")
    until(lambda: hub.connection.over)
    with watched(reach, spare) as stream:
        Host(reach.next()).greet().seed(1)
        assert isinstance(stream.next(), frames.Reset)  # nothing was said to be stale
    spare.drop()


def test_one_that_ends_as_it_is_used_costs_no_more(reach):
    spare = Spare(Dialer(reach, eager=False), pause=60.0)
    command = greeted(kept(spare, reach))
    with watched(reach, spare) as stream:
        command.expect("session.connect")
        command.end()
        Host(reach.next()).greet().seed(1)
        assert isinstance(stream.next(), frames.Reset)
    spare.drop()
