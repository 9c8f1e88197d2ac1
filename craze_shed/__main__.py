"""The console script `craze-shed`, and `python -m craze_shed`.

The standard library is left as it is, with one exception: paramiko reads its connection in a thread
of its own, with blocking calls that would stop the loop, so it wants gevent's in their place, and
wants them there before anything else is imported. Which machine is meant is known only once the
command line is read, so a command that turns out to need it starts this program again, with a word
in the environment, before it has done anything; and this program then patches first thing.
"""

import os
import signal
import sys

PATCHED = "_CRAZE_SHED_PATCHED"

# What takes the place of a closed stdin, stdout and stderr: nothing opened later may land there,
# and reading and writing fail as they would have.
_PLUGS = (os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)


def main() -> None:
    for fd, flags in enumerate(_PLUGS):
        _plug(fd, flags)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback, until a command has its own
    if os.environ.pop(PATCHED, ""):  # not for what is started from here
        from gevent import monkey

        monkey.patch_all()
    from craze_shed.cli import app, reaching

    try:
        sys.exit(app.main(sys.argv[1:]))
    except reaching.NeedsPatching:
        again = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, again, os.environ | {PATCHED: "1"})


def _plug(fd: int, flags: int) -> None:
    try:
        os.fstat(fd)
    except OSError:
        os.open(os.devnull, flags)  # the lowest free number: this one


if __name__ == "__main__":
    main()
