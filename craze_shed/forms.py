"""The create sheet's two halves: the form of a new session, and the resuming of a saved one.

What matters is the life of a request id. A create that may have run is asked for again under the
same id, word for word, so that it can never make a second session; anything else gets a new one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from craze.wire.times import parse_time
from craze_shed.contract import creating
from craze_shed.contract.creating import (
    LaneCreateOptions,
    LaneCreateRequest,
    LaneProvider,
    LaneSavedSession,
)
from craze_shed.contract.errors import BAD_REQUEST, OUTCOME_UNKNOWN, UNAVAILABLE, Failure, LaneError

NO_PROVIDER: Final = "no provider is ready on this machine"
NO_DIRECTORY: Final = "choose a directory: a recent one, or an absolute path"
NO_ABSOLUTE_PATH: Final = "an absolute path, starting with /"
UNKNOWN_OUTCOME: Final = (
    "craze did not answer, so the session may have been created: check the session list. "
    "Try again resumes the same request."
)
MORE_SAVED: Final = "Showing the 50 most recent."
UNTITLED: Final = "Untitled"
RESUME: Final = "Resume"
RESUMING: Final = "Resuming… (this can take a few minutes)"

# Where a refusal is said.
PROVIDER, DIRECTORY, NAME, GENERAL = "provider", "directory", "name", "general"

# A form's states.
EDITING, CREATING, REFUSED, UNKNOWN = "editing", "creating", "refused", "unknown"
BUTTONS: Final = {
    EDITING: "Create", CREATING: "Creating…", REFUSED: "Try again", UNKNOWN: "Try again",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placed:
    """What is wrong, and where the sheet says so."""

    place: str
    text: str


def is_selectable(provider: LaneProvider) -> bool:
    """Whether the provider can be picked; another is dimmed, with its reason and fix."""
    return provider.state == creating.READY


def preselected(options: LaneCreateOptions) -> str | None:
    """The provider to begin with: the default if it is ready, else the first that is; None where
    none is."""
    ready = [provider.id for provider in options.providers if is_selectable(provider)]
    if options.default_provider in ready:
        return options.default_provider
    return ready[0] if ready else None


def directory_problem(directory: str) -> str | None:
    """What is wrong with a typed directory, None where nothing is."""
    path = directory.strip()
    if not path:
        return NO_DIRECTORY
    return None if path.startswith("/") else NO_ABSOLUTE_PATH


def placed(failure: Failure) -> Placed:
    """A definite refusal of a create, where it belongs."""
    reason = failure.reason if isinstance(failure, LaneError) else ""
    text = failure.message
    if reason == "request_conflict":
        return Placed(GENERAL, f"internal error (a new request id is used next time): {text}")
    if failure.code == BAD_REQUEST:
        return Placed(NAME if text.startswith("params.title") else DIRECTORY, text)
    if failure.code == UNAVAILABLE:
        return Placed(GENERAL, f"{text} — try again")
    return Placed(GENERAL, text)


def options_failed(failure: Failure) -> str:
    """What the sheet says, with a Retry, where it could not read what can be created."""
    return f"craze could not list providers: {failure.message}"


class CreateForm:
    """One machine's form, kept over closing and opening the sheet until a create succeeds.

    Every refusal, and every state of the machine, leaves what was typed alone.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.provider: str | None = None
        self.directory = ""
        self.prompt = ""
        self.name = ""
        self.state = EDITING
        self.problem: Placed | None = None
        self._held: LaneCreateRequest | None = None

    def __repr__(self) -> str:
        held = self._held.request_id if self._held else "no request"
        return f"<CreateForm {self.state}: {held}>"

    @property
    def button(self) -> str:
        """The primary button's label."""
        return BUTTONS[self.state]

    def preselect(self, options: LaneCreateOptions) -> None:
        """Take fresh options: a provider that can still be picked stays. A request that is held
        is not touched by what is offered now."""
        ready = {provider.id for provider in options.providers if is_selectable(provider)}
        if self._held is None and self.provider not in ready:
            self.provider = preselected(options)

    def edit(
        self,
        *,
        provider: str | None = None,
        directory: str | None = None,
        prompt: str | None = None,
        name: str | None = None,
    ) -> None:
        """Change what is given. A changed form is a new request."""
        before = (self.provider, self.directory, self.prompt, self.name)
        self.provider = self.provider if provider is None else provider
        self.directory = self.directory if directory is None else directory
        self.prompt = self.prompt if prompt is None else prompt
        self.name = self.name if name is None else name
        if (self.provider, self.directory, self.prompt, self.name) != before:
            self._held, self.problem, self.state = None, None, EDITING

    def submit(self, mint: Callable[[], str], named: bool) -> LaneCreateRequest | None:
        """The request to send, or None where the form itself says what is wrong.

        `mint` makes a new request id; `named` says whether the machine's hub takes a name. A
        request whose outcome is not known is sent again exactly as it was.
        """
        if self._held is None:
            self.problem = self._own_problem()
            if self.problem is not None:
                return None
            self._held = LaneCreateRequest(
                cwd=self.directory.strip(),
                provider=self.provider,
                prompt=self.prompt if self.prompt.strip() else None,
                request_id=mint(),
                title=(self.name.strip() or None) if named else None,
            )
        self.problem, self.state = None, CREATING
        return self._held

    def settle(self, request: LaneCreateRequest, failure: Failure | None = None) -> None:
        """What came of `request`. The answer to one that an edit has dropped changes nothing."""
        if request is not self._held:
            return
        if failure is None:
            self._clear()
        elif failure.code == OUTCOME_UNKNOWN:
            self.state, self.problem = UNKNOWN, Placed(GENERAL, UNKNOWN_OUTCOME)
        else:
            self._held = None
            self.state, self.problem = REFUSED, placed(failure)

    def _own_problem(self) -> Placed | None:
        if self.provider is None:
            return Placed(PROVIDER, NO_PROVIDER)
        problem = directory_problem(self.directory)
        return None if problem is None else Placed(DIRECTORY, problem)


# ---- resuming ----


class ResumeForm:
    """The one reopening that a machine may have under way. It belongs to an incarnation of the
    machine's source, not to the sheet: closing that stops nothing, and a newer incarnation starts
    from nothing."""

    def __init__(self) -> None:
        self.generation = 0
        self.running: str | None = None
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<ResumeForm {self.generation}: {self.running or 'nothing running'}>"

    def see(self, generation: int) -> None:
        """The machine's status names this incarnation of its source."""
        if generation > self.generation:
            self.generation = generation
            self.running = self.problem = None

    def begin(self, saved_id: str) -> bool:
        """Whether the reopening of that session may start now; if so, it has."""
        if self.running is not None:
            return False
        self.running, self.problem = saved_id, None
        return True

    def settle(self, saved_id: str, generation: int, failure: Failure | None = None) -> bool:
        """Whether the answer to a reopening begun in `generation` counts: whether the session is
        to be opened. That of an older incarnation is dropped."""
        if generation != self.generation or self.running != saved_id:
            return False
        self.running = None
        self.problem = failure.message if failure else None
        return failure is None

    def button(self, saved_id: str) -> str:
        """The label of a saved session's button. While one runs, every other is disabled."""
        return RESUMING if self.running == saved_id else RESUME


@dataclass(frozen=True, slots=True)
class SavedRow:
    """A saved session as the sheet lists it."""

    title: str
    provider: str
    workspace: str
    age: str


def saved_row(saved: LaneSavedSession, home: str | None, now_ms: int) -> SavedRow:
    """The row of a saved session. `home` is the machine's home directory where it is known,
    `now_ms` the time in milliseconds since 1970."""
    workspace = saved.workspace
    if home and (workspace == home or workspace.startswith(home + "/")):
        workspace = "~" + workspace[len(home) :]
    title = (saved.title or "").strip() or UNTITLED
    return SavedRow(title, saved.provider, workspace, age(saved.updated_at, now_ms))


def age(time: str, now_ms: int) -> str:
    """How long ago an RFC 3339 time is, in one unit; "" for what is no time."""
    try:
        minutes = (now_ms - parse_time(time) // 1_000_000) // 60_000
    except ValueError:
        return ""
    for size, unit in ((24 * 60, "d"), (60, "h"), (1, "m")):
        if minutes >= size:
            return f"{minutes // size}{unit} ago"
    return "just now"
