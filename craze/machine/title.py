"""What a process is called in a list of processes: the path it was started as, and its arguments.

A script would be shown as its interpreter otherwise.
"""

import os
import sys


def show(name: str) -> None:
    """Show this process so, and as `name` where only a short name is."""
    # Without it the title grows over the environment, by which others know whose a process is.
    ours = "SPT_NOENV" not in os.environ
    if ours:
        os.environ["SPT_NOENV"] = "1"
    from setproctitle import setproctitle, setthreadtitle

    # An argument may be any bytes; a title is UTF-8.
    setproctitle(os.fsencode(" ".join(sys.argv)).decode("utf-8", "replace"))
    setthreadtitle(name)  # what `ps -e` and `killall` know it by
    if ours:
        del os.environ["SPT_NOENV"]  # no child's affair
