"""What a command writes: text and JSON on stdout, failures and what is waited for on stderr.

Whatever a machine, a session or an agent says, nothing of it acts on the terminal, is markup, or
passes for a line of ours.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

import gevent

from craze import greenlets
from craze.terminal import table
from craze.wire.cells import one_line
from craze.wire.plain import plain, plain_line

FAILURE, USAGE = 1, 2
OUTCOME_UNKNOWN = 4  # it may have been done
INTERRUPTED = 130

_FORGET = b"\r\x1b[K"  # what stands on the terminal's line
_NO_WIDTH = 80
_READ = 1


class Ending(Exception):
    """The end of a command before its time: `line` for stderr, "" for none, and the exit code."""

    def __init__(self, line: str = "", code: int = FAILURE) -> None:
        super().__init__(line)
        self.line = line
        self.code = code


def show(text: str) -> None:
    """Write text of any number of lines. Raises Ending."""
    _write(plain(text) + "\n")


def show_json(value: Any) -> None:
    """Write one line of JSON; what does not show is escaped. Raises Ending."""
    _write(table.json_line(value))


def columns(rows: list[tuple[str, ...]]) -> None:
    """Write a table; its first row are the headings. Raises Ending."""
    _write(table.columns(rows))


def _write(text: str) -> None:
    data = text.encode(errors="replace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:  # whoever read has read enough
        raise Ending from None
    except OSError as failure:
        raise Ending(f"write stdout: {(failure.strerror or str(failure)).lower()}") from None


def report(line: str) -> None:
    """Write one line to stderr, whether or not anybody reads it."""
    with contextlib.suppress(OSError):
        os.write(2, plain_line(line).encode(errors="replace") + b"\n")


@contextlib.contextmanager
def waiting(words: str) -> Iterator[None]:
    """Say on a terminal what is waited for, while it is."""
    if not os.isatty(2):
        yield
        return
    with contextlib.suppress(OSError):
        os.write(2, one_line(plain_line(words), _width() - 1).encode())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.write(2, _FORGET)


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns or _NO_WIDTH
    except OSError:
        return _NO_WIDTH


@contextlib.contextmanager
def read_by_somebody(gone: Callable[[], object]) -> Iterator[None]:
    """Call `gone()` when nobody reads stdout any more: what only writes when something happens
    would not notice. For a pipe; on what else stdout may be, writing tells."""
    if not stat.S_ISFIFO(os.fstat(1).st_mode):
        yield
        return
    watcher = gevent.get_hub().loop.io(1, _READ)

    def watch() -> None:
        gevent.get_hub().wait(watcher)  # a pipe that is written to is readable only in its ruin
        gone()

    watching = greenlets.spawn("stdout", watch)
    try:
        yield
    finally:
        watching.kill()
        watcher.close()
