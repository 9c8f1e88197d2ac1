"""Starting a session and reopening a saved one: what can be asked, and what comes of it."""

import re
import uuid
from dataclasses import dataclass
from typing import ClassVar, Final

from craze_shed.contract import codec
from craze_shed.contract.errors import bad_request
from craze_shed.contract.sessions import LaneSession

# A provider's state; only `ready` can be picked, and a word that is none of these is not ready.
READY, NEEDS_SETUP, UNAVAILABLE = "ready", "needs_setup", "unavailable"
# What became of a create's first prompt.
NONE, ACCEPTED, UNKNOWN, REFUSED = "none", "accepted", "unknown", "refused"

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class LaneProvider(codec.Document):
    """One provider: `reason` says why it is not ready, `fix` what to do about it."""

    id: str
    label: str
    state: codec.Word
    reason: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class LaneCreateOptions(codec.Document):
    """What a create can be given here; `recent_dirs` are newest first, `reopen` says whether saved
    sessions can be reopened."""

    providers: tuple[LaneProvider, ...] = ()
    default_provider: str | None = None
    recent_dirs: tuple[str, ...] = ()
    reopen: bool = False


@dataclass(frozen=True, slots=True)
class LaneCreateRequest(codec.Document):
    """A create. The same `request_id` is answered with the same session."""

    reading: ClassVar[str] = codec.STRICT
    cwd: str
    provider: str | None = None
    prompt: str | None = None
    request_id: str = codec.required("")
    title: str | None = None


@dataclass(frozen=True, slots=True)
class LaneCreated(codec.Document):
    """The session that was started, and what became of its first prompt: `none`, `accepted`,
    `unknown`, `refused`, or another word."""

    session: LaneSession
    prompt: codec.Word
    prompt_error: str | None = None


@dataclass(frozen=True, slots=True)
class LaneSavedSession(codec.Document):
    """A session that nothing runs now. `id` is opaque; times are RFC 3339."""

    id: str
    craze_session_id: str | None = None
    provider: str = codec.required("")
    provider_session_id: str = codec.required("")
    workspace: str = codec.required("")
    title: str | None = None
    created_at: str = codec.required("")
    updated_at: str = codec.required("")


@dataclass(frozen=True, slots=True)
class LaneSavedList(codec.Document):
    """The newest saved sessions, newest first; `more` says that there are others."""

    sessions: tuple[LaneSavedSession, ...] = ()
    more: bool = codec.required(False)


@dataclass(frozen=True, slots=True)
class LaneReopened(codec.Document):
    """A saved session that runs again; `joined` says that it already did."""

    session: LaneSession
    joined: bool = codec.required(False)


def new_request_id() -> str:
    """A request id that nobody has used."""
    return f"shed-{uuid.uuid4().hex}"


def check_request_id(request_id: str) -> None:
    """Raise LaneError `bad_request` for an id that craze would refuse."""
    if not _REQUEST_ID.fullmatch(request_id):
        raise bad_request(
            f'request id "{request_id}" is not craze\'s form (1–64 of [A-Za-z0-9._-]); '
            "mint one with new_request_id"
        )
