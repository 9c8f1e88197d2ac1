"""The two interfaces that an adapter implements: a machine's sessions, and one session.

Calls block the calling greenlet, never the loop. Everything that fails raises LaneError, unless
said otherwise; a verb whose request may have run fails so that `errors.is_outcome_unknown` says so,
and is never sent again by the adapter.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from craze_shed.contract.answers import LaneAnswer
from craze_shed.contract.approvals import LaneApproval
from craze_shed.contract.creating import (
    LaneCreated,
    LaneCreateOptions,
    LaneCreateRequest,
    LaneReopened,
    LaneSavedList,
)
from craze_shed.contract.errors import failed
from craze_shed.contract.frames import LaneFrame, SourceFrame
from craze_shed.contract.publisher import Subscription
from craze_shed.contract.sessions import LaneHistory, LaneSession
from craze_shed.contract.settings import LaneSettingChange, LaneSettings


class AgentSource(ABC):
    """A machine's view of its sessions."""

    agent: ClassVar[str]  # the kind: `craze`, `opencode`

    def kind(self) -> str:
        """The name of the adapter, as capabilities carry it."""
        return self.agent

    @abstractmethod
    def subscribe(self) -> Subscription[SourceFrame]:
        """The list as a stream, at once: `Reset`, sessions, `Capabilities`, `Ready`, then changes.

        It never fails later and never ends by itself: an outage is an `Offline` frame. Raises
        nothing.
        """

    @abstractmethod
    def create_options(self) -> LaneCreateOptions:
        """What a create can be given, read afresh. An explicit action: it may start what serves
        the sessions there. Raises LaneError `unavailable` (ask again) or `failed`."""

    @abstractmethod
    def create(self, request: LaneCreateRequest) -> LaneCreated:
        """Start a session; returns once it exists, which may take minutes.

        A create whose answer is lost is tried once more under the same request id. Raises
        LaneError: `bad_request` for the request, `failed` for a start that failed, and an unknown
        outcome after two lost answers: the same id may be used to ask again.
        """

    def saved(self) -> LaneSavedList:
        """The sessions that were run here and are not running, newest first. An explicit action.
        Raises LaneError; `unavailable` where none can be reopened."""
        raise failed(f"listing saved sessions is not supported by {self.agent}")

    def reopen(self, saved_id: str) -> LaneReopened:
        """Run a saved session again, or join it where it already runs; may take minutes. An
        explicit action. Raises LaneError; `not_accepting` is final for this saved session."""
        raise failed(f"reopening a session is not supported by {self.agent}")

    @abstractmethod
    def open(self, session_id: str) -> "AgentLane":
        """A lane for the row of that id; no I/O, and no check that there is such a session."""

    def close(self) -> None:  # noqa: B027
        """Let go of what the source holds; its subscriptions end. Closing twice is harmless."""


class AgentLane(ABC):
    """One session, bound to its id for life: no verb takes an id."""

    agent: ClassVar[str]

    @abstractmethod
    def session_id(self) -> str:
        """The id that it was opened with."""

    @abstractmethod
    def session(self) -> LaneSession:
        """The latest row that is known; no I/O. Raises LaneError `unknown_session` where none
        is."""

    @abstractmethod
    def history(self, cursor: str | None = None, limit: int = 0) -> LaneHistory:
        """The newest rows: `limit` of them, 0 for 100, at most 200. `cursor` is ignored. Their
        seqs are local to the call. Raises LaneError."""

    @abstractmethod
    def subscribe(self, cursor: str | None = None) -> Subscription[LaneFrame]:
        """The session as a stream, at once: `Reset`, the seed, `Ready`, then what happens, until
        a `Down`. Each call is a stream of its own, whatever the `cursor`; its rows are numbered
        on from those of the streams before it. Raises LaneError where the adapter must ask
        first."""

    @abstractmethod
    def send(self, text: str, mode: str = "queue") -> None:
        """Send a prompt: `queue` behind what is in flight, or `interject` into the turn that
        runs. Returns once it is accepted. Raises LaneError; `not_accepting` for an interjection
        with nothing to interject into."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the current turn. Raises LaneError; `not_accepting` with nothing to cancel."""

    @abstractmethod
    def approvals(self) -> tuple[LaneApproval, ...]:
        """The asks that are pending. Raises LaneError."""

    @abstractmethod
    def answer(self, approval_id: str, answer: LaneAnswer) -> None:
        """Answer an ask. That it is answered shows on the stream, not here. Raises LaneError:
        `bad_request` for an answer that does not fit, which leaves the ask open,
        `unknown_approval`, `already_submitted`, `already_resolved`."""

    def settings(self) -> LaneSettings:
        """The settings as they stand; empty where there is nothing to set. Raises LaneError."""
        return LaneSettings()

    def set(self, change: LaneSettingChange) -> None:
        """Change one setting. Its value shows on the stream. Raises LaneError; `not_accepting`
        for an option of a model that the session has left."""
        raise failed(f"changing a session's settings is not supported by {self.agent}")

    def set_title(self, title: str) -> str | None:
        """Rename the session. Returns None, or a warning: renamed, but not recorded. Raises
        LaneError."""
        raise failed(f"renaming a session is not supported by {self.agent}")

    def stop(self) -> None:
        """End the session. Returns at its receipt; the end is the stream's Down. Raises
        LaneError."""
        raise failed(f"stopping a session is not supported by {self.agent}")

    def close(self) -> None:  # noqa: B027
        """Let go of what the lane holds beside its subscriptions; those it leaves alone. Closing
        twice is harmless."""
