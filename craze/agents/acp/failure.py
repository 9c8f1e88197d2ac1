"""How an agent's death reads: craze's words, the exit status, and the agent's own last words."""

import re
import signal

from craze.agents.limits import TAIL_TEXT
from craze.engine.port import AgentError
from craze.transcript.text import head_marked, one_line

# What shows nothing itself but changes how the rest is shown.
_HIDDEN = re.compile("[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")


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
    said = stderr.decode("utf-8", "replace").replace("\r", "\n").split("\n")
    shown = [line for line in (one_line(_HIDDEN.sub("", words)) for words in said) if line]
    while len(shown) > 1 and len(" / ".join(shown).encode()) > TAIL_TEXT:
        del shown[0]
    return head_marked(" / ".join(shown), TAIL_TEXT)


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
    return AgentError(words, "agent_exit_status", status if status > 0 else -1)
