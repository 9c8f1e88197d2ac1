"""What `craze bridge --help` says."""

from craze.terminal.manual import Page, render

from .command import FLAGS, NAME

__all__ = ["PAGE", "render"]

PAGE = Page(
    NAME,
    "be one session's socket on stdin and stdout",
    [NAME + " [--session=ID]", NAME + " --hub [--no-start]"],
    """
    Connects to the host of a running session, or to the hub, and copies bytes both ways, unchanged:
    what comes on stdin goes to it, what it sends goes to stdout. A client on another machine runs
    it over ssh and speaks the session protocol through it.

    Without --session and --hub exactly one session may be running.

    With --hub a hub is found or started within ten seconds. One that is started keeps this
    command's environment for its life. One that has stopped working is replaced; one that is only
    busy is not.

    When stdin ends, the other end is told so and its answers still come. The command ends when the
    other end closes the connection, or when nobody reads its stdout any more. It never starts a
    session and never ends one.
    """,
    FLAGS,
    (
        (
            "EXIT STATUS",
            """
            0 when the other end closed the connection; 3 when --no-start was given and no hub runs;
            1 for everything else, usage included. All but 0 with one line on stderr.
            """,
        ),
        (
            "ENVIRONMENT",
            """
            HOME names the user whose sessions are looked at; CRAZE_HOME, with --hub, whose hub
            (~/.craze). CRAZE_RUNTIME_DIR is where a hub that is started has its socket.
            CRAZE_CONFIG is refused.
            """,
        ),
    ),
)
