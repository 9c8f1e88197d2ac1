"""Picks the command before anything heavy is imported: a bridge must start in no time.

The standard library is not patched here or anywhere: greenlets use gevent's sockets by name.
"""

import os
import sys

# What takes the place of a closed stdin, stdout and stderr: nothing opened later may land there,
# and reading and writing fail as they would have.
_PLUGS = (os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)


def main() -> None:
    """The console script `craze`, and `python -m craze`."""
    for fd, flags in enumerate(_PLUGS):
        _plug(fd, flags)
    from craze.machine import reexec, title

    if not reexec.remember():
        title.show("craze")
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    command = arguments[0] if arguments else ""
    if command == "bridge":
        from craze.bridge import command as bridge

        return bridge.main(arguments[1:])
    if command == "serve":
        from craze.cli import serve

        return serve.main(arguments[1:])
    if command == "hub":
        from craze.cli import hub

        return hub.main(arguments[1:])
    from craze.cli import app

    return app.main(arguments)


def _plug(fd: int, flags: int) -> None:
    try:
        os.fstat(fd)
    except OSError:
        os.open(os.devnull, flags)  # the lowest free number: this one


if __name__ == "__main__":
    main()
