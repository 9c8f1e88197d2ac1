"""What a session's row and its machine's card say, and which of their buttons act."""

from typing import Final

from craze_shed.contract import frames
from craze_shed.contract.capabilities import LaneCapabilities, SourceCapabilities
from craze_shed.contract.rows import IDLE, WORKING
from craze_shed.contract.sessions import LaneSession

# A machine's source is in one of these states.
LIVE, DORMANT, OFFLINE, ABSENT = "live", "dormant", "offline", "absent"

STOP_QUESTION: Final = "Stop this session? The agent ends; the transcript stays."
STOP_BUTTONS: Final = ("Stop session", "Keep")

_PERMISSIONS: Final = {
    "bypass": "runs tools without asking",
    "prompt": "asks before running tools",
}


def doing(session: LaneSession) -> tuple[str, bool] | None:
    """The row's second line and whether it is dimmed: what the session does, or said last."""
    if session.doing:
        return session.doing, False
    if session.activity == IDLE and session.last_reply:
        return session.last_reply, True
    return None


def permission(session: LaneSession) -> str | None:
    """What the session's permission mode means, None where none is known."""
    mode = session.permission_mode
    return _PERMISSIONS.get(mode, f"permissions: {mode}") if mode else None


def buttons(session: LaneSession, capabilities: LaneCapabilities) -> dict[str, bool]:
    """The buttons that show, `cancel`, `interject` and `stop`, and whether each acts now."""
    working = session.activity == WORKING
    shown = (
        ("cancel", capabilities.cancel, working),
        ("interject", capabilities.interject, working),
        ("stop", capabilities.stop, True),
    )
    return {name: acts for name, offered, acts in shown if offered}


def machine_note(
    state: str, cause: str | None, capabilities: SourceCapabilities | None
) -> str | None:
    """What a machine's card says about craze there."""
    if cause == frames.TOO_OLD:
        return "craze on this machine is too old for shed; update it"
    if state == LIVE and not _creates(capabilities):
        return "update craze on this machine to create sessions here"
    return None


def create_offered(state: str, capabilities: SourceCapabilities | None) -> bool:
    """Whether a new session can be asked for: where nothing serves sessions yet, asking starts
    it."""
    return state == DORMANT or (state == LIVE and _creates(capabilities))


def sheet_note(machine: str, state: str, cause: str | None) -> str | None:
    """What an open create sheet says of a machine that cannot create now."""
    if cause == frames.NOT_INSTALLED:
        return f"craze is not installed on {machine}"
    if state == OFFLINE:
        return f"craze on {machine} is offline ({cause}) — your form is kept"
    return f"{machine} has no craze" if state == ABSENT else None


def _creates(capabilities: SourceCapabilities | None) -> bool:
    return capabilities is not None and capabilities.create and capabilities.create_options
