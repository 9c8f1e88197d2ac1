"""What `craze bridge --help` says."""

from craze.cli.manual import Page, render

from .command import FLAGS, NAME

__all__ = ["PAGE", "render"]

PAGE = Page(
    NAME,
    "be one session's socket on stdin and stdout",
    [NAME + " [--session=ID]"],
    """
    Connects to the host of a running session and copies bytes both ways, unchanged: what comes on
    stdin goes to the host, what the host sends goes to stdout. A client on another machine runs it
    over ssh and speaks the session protocol through it.

    Without --session exactly one session may be running.

    When stdin ends, the host is told so and its answers still come. The command ends when the host
    closes the connection, or when nobody reads its stdout any more. It never starts a session and
    never ends one.
    """,
    FLAGS,
    (
        (
            "EXIT STATUS",
            """
            0 when the host closed the connection; 1 for everything else, usage included, with one
            line on stderr.
            """,
        ),
        (
            "ENVIRONMENT",
            """
            HOME names the user whose sessions are looked at. CRAZE_CONFIG is refused.
            """,
        ),
    ),
)
