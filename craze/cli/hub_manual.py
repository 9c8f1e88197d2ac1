"""What `craze hub --help` says."""

from craze.terminal.manual import Page, render

from .hub import NAME

__all__ = ["PAGE", "render"]

PAGE = Page(
    NAME,
    "list this machine's sessions, start them, and put clients through to them",
    [NAME],
    """
    The hub of a craze directory: one process that lists the sessions of this machine, creates and
    reopens them, and connects clients to their hosts. There is one at a time; a second leaves at
    once. Nobody has to start it: `craze bridge --hub`, `craze ps` and `craze new` do.

    It has no terminal of its own. It ends at SIGTERM or SIGINT, or when for a minute no client was
    connected and no session ran. No session ends with it: the next hub finds them all. SIGHUP is
    ignored.
    """,
    (),
    (
        ("EXIT STATUS", "0 when it ended, or another hub runs; 1 when it could not start."),
        (
            "FILES",
            """
            ~/.cache/craze/hubs/ says which hub runs, ~/.cache/craze/host-logs/hub-NAMESPACE.log
            what it has to say.
            """,
        ),
        (
            "ENVIRONMENT",
            """
            CRAZE_HOME names another craze directory, and with it another hub; CRAZE_RUNTIME_DIR a
            directory for sockets; CRAZE_HUB_IDLE another time without use (`1m`). What a session
            starts with is the environment of its hub. CRAZE_CONFIG is refused.
            """,
        ),
    ),
)
