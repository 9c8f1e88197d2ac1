"""The method table and what is said of a method at the wrong place."""

import pytest

from craze.wire import methods
from craze.wire.methods import METHODS

HOST = [
    "hello", "sessions.list", "session.attach", "session.detach", "session.state",
    "session.snapshot", "session.sync", "session.prompt", "session.cancel", "session.disarm",
    "session.queue.add", "session.queue.edit", "session.queue.remove", "session.queue.clear",
    "session.set", "session.setTitle", "session.subagent.cancel", "session.stop",
    "session.models.refresh", "session.aside", "session.aside.cancel", "asks.list", "asks.get",
    "asks.answer",
]  # fmt: skip
HUB = [
    "hello", "sessions.list", "sessions.subscribe", "session.connect", "session.create",
    "sessions.createOptions", "sessions.saved", "session.reopen",
]  # fmt: skip


def named(**traits):
    return {name for name, method in METHODS.items()
            if all(getattr(method, trait) == value for trait, value in traits.items())}  # fmt: skip


def test_who_serves_what():
    assert named(host=True) == set(HOST)
    assert named(hub=True) == set(HUB)
    assert set(METHODS) == {*HOST, *HUB}


def test_how_each_is_answered():
    mutating = {
        "session.prompt", "session.cancel", "session.disarm", "session.queue.add",
        "session.queue.edit", "session.queue.remove", "session.queue.clear", "session.set",
        "session.setTitle", "session.subagent.cancel", "session.stop", "asks.answer",
    }  # fmt: skip
    assert named(mutating=True) == mutating
    assert named(barrier="command") == mutating - {"session.stop"}
    assert named(barrier="sync") == {"session.sync", "session.models.refresh"}
    assert named(scoped=True) == set(HOST) - {"hello", "sessions.list"}
    assert named(strict=True) == {"session.create", "sessions.saved", "session.reopen"}
    assert named(once=True) == {"sessions.saved", "session.reopen"}
    assert named(tolerant=True) == {"hello"}
    blocking = {name for name, method in METHODS.items() if method.blocks({})}
    assert blocking == {"session.cancel", "session.set"}
    assert METHODS["session.prompt"].blocks({"mode": "interject"})
    assert not METHODS["session.prompt"].blocks({"mode": "send_now"})


@pytest.mark.parametrize("name", set(HUB) - set(HOST))
def test_a_host_refuses_what_is_the_hubs(name):
    refusal = methods.not_served(METHODS[name], "host")
    reason = "roster_unsupported" if name == "sessions.subscribe" else "hub_only"
    assert (refusal.rpc, refusal.code, refusal.reason) == (-32000, "unsupported", reason)
    assert refusal.message == f"{name} is not served by a session host"


def test_a_hub_refuses_what_is_a_hosts():
    refusal = methods.not_served(METHODS["asks.get"], "hub")
    assert (refusal.code, refusal.reason) == ("unsupported", "host_only")
    assert refusal.message == (
        "asks.get is a session host's: connect to the session (session.connect) and send it there"
    )
    refusal = methods.not_served(METHODS["session.create"], "hub")
    assert refusal.reason == "unsupported"
    assert refusal.message == "session.create is not served by the hub"


def test_before_hello():
    refusal = methods.before_hello("session.state")
    assert (refusal.rpc, refusal.reason) == (-32000, "hello_required")
    assert refusal.message == ("session.state before hello: every method but hello needs one first")
