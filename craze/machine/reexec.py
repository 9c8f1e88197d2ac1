"""How this very program is started again: by the path it was started as, or by `-m`."""

import os
import sys

_prefix: list[str] = []


def remember() -> bool:
    """Note how the program was started, before any change of directory; whether it was by `-m`.

    Called once, by the entry point.
    """
    by_module = getattr(sys.modules["__main__"], "__spec__", None) is not None
    if by_module:
        own = len(sys.argv) - 1  # the interpreter's own flags and the module's name come before
        _prefix[:] = [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - own]]
    else:
        program = os.path.abspath(sys.argv[0])
        runs = os.access(program, os.X_OK)
        _prefix[:] = [program] if runs else [sys.executable, program]
    return by_module


def prefix() -> list[str]:
    """What a command line of this program begins with; its arguments follow."""
    return list(_prefix) or [sys.executable, "-m", "craze"]


def missing() -> str:
    """The path of what an upgrade or a removal took of this program; "" while it is whole."""
    package = os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py")
    parts = [part for part in prefix() if part.startswith("/")][:2]
    return next((path for path in (*parts, package) if not os.path.exists(path)), "")
