"""What the help of a command says besides its options, which are those it is parsed by."""

from craze.terminal.commands import More

_ENVIRONMENT = """
    HOME names the user whose sessions these are, CRAZE_HOME another craze directory and with it
    another hub (~/.craze). A hub that is started keeps the environment of the command for its life.
    CRAZE_CONFIG is refused.
    """

PAGES = {
    "completion": More(
        ("bash|zsh|fish",),
        [
            ("EXIT STATUS", "0 for success, 1 for a failure, 2 for a usage error."),
            (
                "EXAMPLES",
                [
                    "In ~/.bashrc:",
                    "",
                    "    source <(craze completion bash)",
                    "",
                    "In ~/.zshrc, after compinit:",
                    "",
                    "    source <(craze completion zsh)",
                    "",
                    "For fish, once:",
                    "",
                    "    craze completion fish > ~/.config/fish/completions/craze.fish",
                ],
            ),
        ],
    ),
    "new": More(
        ("[FLAG...] [PROMPT...]", "--load=ID [--json]"),
        [
            (
                "OUTPUT",
                """
                `started` and the last eight characters of the session's id, by which `craze ps`
                lists it and `craze bridge --session` finds it; `joined` in its place for a saved
                session that ran already.

                With --json it is the hub's answer as it came. A failure then prints
                {"error":{"message":...}}, with the code and data of a refusal of the hub's.
                """,
            ),
            (
                "EXIT STATUS",
                """
                0 when the session runs and has its prompt; 1 for a failure, also when the session
                runs and refused its prompt; 2 for a usage error; 130 when it was interrupted, which
                does not keep a session from starting.
                """,
            ),
            (
                "EXAMPLES",
                [
                    "craze new fix the flaky test",
                    "craze new -C ~/src/lumen --provider grok --title 'Flaky test'",
                    "craze new --json fix the build | jq -r .session.sessionId",
                    "craze new -- --json prints nothing when stdout is closed",
                    "craze new --load 0190ab12-cd34-7ef0-8123-456789abcdef",
                ],
            ),
            ("ENVIRONMENT", _ENVIRONMENT),
        ],
    ),
    "providers": More(
        (),
        [
            (
                "EXIT STATUS",
                "0 for success; 1 for a failure, and when --hub finds no hub; 2 for a usage error.",
            ),
            (
                "EXAMPLES",
                [
                    "craze providers",
                    "craze providers --json | jq '.providers[] | select(.state==\"ready\")'",
                    "craze providers --hub",
                ],
            ),
        ],
    ),
    "ps": More(
        ("[--json] [--no-hub]", "--saved [--json] [--no-hub]"),
        [
            (
                "OUTPUT",
                """
                SESSION is the end of the session's id. SINCE is how long it has been in its state:
                seconds, minutes, hours or days. TITLE is cut to the terminal, DIR before it; where
                stdout is no terminal, TITLE is cut to 100 cells and DIR is whole.

                With --json it is the answer of the hub as it came: an object whose `sessions` are
                roster rows, or saved sessions.
                """,
            ),
            ("EXIT STATUS", "0 for success, 1 for a failure, 2 for a usage error."),
            (
                "EXAMPLES",
                [
                    "craze ps",
                    "craze ps --json | jq -r '.sessions[].sessionId'",
                    "craze new --load $(craze ps --saved --json | jq -r .sessions[0].id)",
                ],
            ),
            ("ENVIRONMENT", _ENVIRONMENT),
        ],
    ),
}
