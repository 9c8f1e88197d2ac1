"""How an agent's death reads: craze's words, the exit status, and the agent's own last words."""

import re
import signal

from craze.agents.acp.read import head
from craze.agents.limits import TAIL_TEXT
from craze.engine.port import AgentError

_ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:[\x07\x9c]|\x1b\\|$)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")


def exit_text(status: int) -> str:
    """A process's end in words, its status negative for a signal."""
    if status >= 0:
        return f"acp: agent exited: exit status {status}"
    try:
        name = signal.strsignal(-status) or ""
    except ValueError:
        name = ""
    return f"acp: agent exited: signal: {name.lower() or -status}"


def last_words(stderr: bytes) -> str:
    """The end of an agent's stderr as one line fit to show: its non-blank lines joined by ` / `,
    the earliest left out where they do not fit (protocol tables 10.1); "" when it said nothing."""
    shown = []
    for raw in stderr.decode("utf-8", "replace").replace("\r", "\n").split("\n"):
        line = " ".join(_HIDDEN.sub("", _ESCAPES.sub("", raw.replace("\t", " "))).split())
        if line:
            shown.append(line)
    while len(shown) > 1 and len(" / ".join(shown).encode()) > TAIL_TEXT:
        del shown[0]
    return head(" / ".join(shown), TAIL_TEXT)


def with_tail(words: str, stderr: bytes) -> str:
    """A failure's words with the agent's own after them, in at most 512 bytes of those."""
    said = last_words(stderr)
    return f"{words}: {said}" if said else words


def exit_error(status: int, initialized: bool, stderr: bytes) -> AgentError:
    """The error of an agent that exited: `initialized` is whether `initialize` was sent to it."""
    if status == 0:
        return AgentError(exit_text(status), "closed")
    words = exit_text(status)
    if initialized:
        words = with_tail(words, stderr)
    return AgentError(words, "agent_exited_status", status if status > 0 else -1)
