"""What a program may rely on, and what importing it brings along."""

import subprocess
import sys

import pytest

import craze_shed


def test_the_public_names():
    assert craze_shed.__all__ == [
        "AgentLane",
        "AgentSource",
        "ClientError",
        "CrazeSource",
        "Dialer",
        "LaneError",
        "LaneView",
        "OpenLane",
        "SourceView",
        "Subscription",
        "fold_plan",
    ]
    for name in craze_shed.__all__:
        thing = getattr(craze_shed, name)
        assert thing.__name__ == name
        assert thing.__doc__
    assert sorted(craze_shed._HOMES) == craze_shed.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Lane'"):
        craze_shed.Lane  # noqa: B018


@pytest.mark.parametrize("imported,absent", [
    ("import craze_shed", ["gevent", "ujson", "paramiko"]),
    ("from craze_shed import LaneView, SourceView, fold_plan", ["gevent", "paramiko", "asyncio"]),
    ("import craze_shed.menu, craze_shed.forms, craze_shed.sheet", ["gevent", "paramiko"]),
    ("from craze_shed import CrazeSource, OpenLane", ["paramiko", "typer", "jsonschema"]),
])  # fmt: skip
def test_a_part_brings_along_no_more_than_it_needs(imported, absent):
    program = f"import sys\n{imported}\nprint([m for m in sys.modules if m in {absent}])"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_importing_patches_nothing():
    program = (
        "from craze_shed import CrazeSource, OpenLane\n"
        "import gevent.monkey\n"
        "print(gevent.monkey.is_anything_patched())\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout == "False\n", shown.stderr
