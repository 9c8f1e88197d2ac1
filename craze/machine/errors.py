"""What goes wrong on the machine, in words for the person at it."""


class MachineError(Exception):
    """A state of the machine that craze cannot work with; `str()` is one line that says what to do.

    The line carries no program name: whoever prints it puts `craze <command>: ` in front.
    """


def reason(failure: BaseException) -> str:
    """The words of a failure in one line: an OSError's own text without its number and path.

    A Unix socket path that is too long raises an OSError with no number at all, so nothing here
    looks one up.
    """
    words = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
    # "No such file", but not "AF_UNIX path".
    return words[:1].lower() + words[1:] if words[1:2].islower() else words
