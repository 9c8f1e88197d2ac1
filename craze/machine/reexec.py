"""How this very program is started again: by the path it was started as, or by `-m`."""

import os
import sys

_prefix: list[str] = []


def remember() -> list[str]:
    """Note how the program was started, before any change of directory; its arguments precede ours.

    Called once, by the entry point.
    """
    program = sys.argv[0]
    if getattr(sys.modules["__main__"], "__spec__", None) is not None:
        # Started as `python … -m craze`: the interpreter, its own flags and the module.
        own = len(sys.argv) - 1
        _prefix[:] = [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - own]]
    else:
        program = os.path.abspath(program)
        runs = os.access(program, os.X_OK)
        _prefix[:] = [program] if runs else [sys.executable, program]
    return list(_prefix)


def prefix() -> list[str]:
    """What a command line of this program begins with; its arguments follow."""
    return list(_prefix) or [sys.executable, "-m", "craze"]
