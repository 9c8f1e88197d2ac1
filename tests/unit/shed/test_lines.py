"""What a row and a machine's card say."""

import pytest

from craze_shed import lines
from craze_shed.contract.capabilities import LaneCapabilities, SourceCapabilities
from craze_shed.contract.sessions import LaneSession

CREATES = SourceCapabilities("craze", True, True)
OLD = SourceCapabilities("craze", True, False)


@pytest.mark.parametrize("activity,doing,reply,line", [
    ("working", "Thinking", "old", ("Thinking", False)), ("idle", None, "done", ("done", True)),
    ("working", None, "old", None), ("idle", None, None, None), ("idle", "x", "y", ("x", False)),
])  # fmt: skip
def test_what_a_session_does(activity, doing, reply, line):
    session = LaneSession(activity=activity, doing=doing, last_reply=reply)
    assert lines.doing(session) == line


@pytest.mark.parametrize("mode,text", [
    ("bypass", "runs tools without asking"), ("prompt", "asks before running tools"),
    ("yolo", "permissions: yolo"), (None, None), ("", None),
])  # fmt: skip
def test_what_a_permission_mode_means(mode, text):
    assert lines.permission(LaneSession(permission_mode=mode)) == text


def test_buttons_show_by_capability_and_act_by_activity():
    able = LaneCapabilities("craze", True, True, True, True, stop=True)
    assert lines.buttons(LaneSession(activity="working"), able) == {
        "cancel": True, "interject": True, "stop": True,
    }  # fmt: skip
    assert lines.buttons(LaneSession(activity="needs_approval"), able) == {
        "cancel": False, "interject": False, "stop": True,
    }  # fmt: skip
    assert lines.buttons(LaneSession(), LaneCapabilities("x", False, True, True, True)) == {
        "cancel": False
    }


@pytest.mark.parametrize("state,cause,capabilities,note,offered", [
    ("offline", "too_old", None, "craze on this machine is too old for shed; update it", False),
    ("live", None, CREATES, None, True),
    ("live", None, OLD, "update craze on this machine to create sessions here", False),
    ("live", None, None, "update craze on this machine to create sessions here", False),
    ("dormant", None, None, None, True),
    ("absent", "not_installed", None, None, False),
    ("offline", "unreachable", CREATES, None, False),
])  # fmt: skip
def test_a_machines_card(state, cause, capabilities, note, offered):
    assert lines.machine_note(state, cause, capabilities) == note
    assert lines.create_offered(state, capabilities) is offered


@pytest.mark.parametrize("state,cause,note", [
    ("absent", "not_installed", "craze is not installed on m"),
    ("offline", "unreachable", "craze on m is offline (unreachable) — your form is kept"),
    ("absent", None, "m has no craze"), ("live", None, None), ("dormant", None, None),
])  # fmt: skip
def test_what_an_open_sheet_says_of_its_machine(state, cause, note):
    assert lines.sheet_note("m", state, cause) == note
