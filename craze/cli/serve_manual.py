"""What `craze serve --help` says."""

from craze.terminal.manual import Page, render

from .serve import FLAGS, NAME

__all__ = ["PAGE", "render"]

PAGE = Page(
    NAME,
    "serve one session until it is stopped or left alone",
    [NAME + " [FLAG...]", NAME + " --continue [FLAG...]", NAME + " --load=ID [FLAG...]"],
    """
    Starts a session, or loads a saved one, and serves it on a socket of its own to any number of
    clients. The agent belongs to the session: clients come and go, the session stays.

    It has no terminal of its own. A session that cannot start stays listed and says why to whoever
    attaches; it ends when nobody does. Else it ends when a client stops it, at SIGTERM or SIGINT,
    or when nobody was attached and nothing went on for host_idle_exit (1h unless set; 5m at most
    for a session that was never prompted). SIGHUP is ignored.
    """,
    FLAGS,
    (
        (
            "EXIT STATUS",
            """
            0 after a session that was served; 1 when it could not be; 2 for a usage error.
            """,
        ),
        (
            "FILES",
            """
            ~/.craze/config.toml holds the settings: provider, host_idle_exit, [agents], and
            [providers.NAME] for any other agent that speaks the Agent Client Protocol.
            ~/.craze/sessions.jsonl lists what can be loaded. A host started in the background logs
            to ~/.cache/craze/host-logs/, one started by hand to stderr.
            """,
        ),
        (
            "ENVIRONMENT",
            """
            CRAZE_HOME names another craze directory, CRAZE_RUNTIME_DIR a directory for sockets,
            CRAZE_PROVIDER and CRAZE_AGENT_BIN a provider and its program for this launch.
            CRAZE_JOURNAL=0 keeps no journal. CRAZE_CONFIG is refused.
            """,
        ),
    ),
)
