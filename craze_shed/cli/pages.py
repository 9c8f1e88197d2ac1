"""What the help of a command says besides its options, which are those it is parsed by."""

from craze.terminal.commands import More

PAGES = {
    "machines": More(
        (),
        [
            (
                "OUTPUT",
                """
                With --json an object for each machine: `machine`, `reach`, `state` (`live` with a
                hub, `dormant` without, `offline`, `absent`), and where it is neither of the first
                two `cause` and `reason`.
                """,
            ),
        ],
    ),
    "sessions": More(
        (),
        [
            (
                "OUTPUT",
                """
                With --json each line is a session; with --watch, too, it is a frame of the source's
                stream.
                """,
            ),
        ],
    ),
    "new": More(
        ("[FLAG...] [PROMPT...]",),
        [
            (
                "EXIT STATUS",
                """
                0 when the session runs and has its prompt; 1 for a failure, also when the session
                runs and refused its prompt; 4 when no answer came, twice: the session may run, and
                what is printed says the request id to ask again with.
                """,
            ),
            (
                "EXAMPLES",
                [
                    "craze-shed new fix the flaky test",
                    "craze-shed new -m ssh:build -C /home/me/lumen --provider grok",
                    "craze-shed new --json -C /srv/site make it blue | jq -r .session.id",
                ],
            ),
        ],
    ),
    "resume": More(("[FLAG...] SAVED",)),
    "history": More(("[FLAG...] SESSION",)),
    "watch": More(
        ("[FLAG...] SESSION",),
        [
            ("OUTPUT", "With --json each line is a frame of the lane's stream."),
            (
                "EXIT STATUS",
                """
                0 when the session was closed; 1 when the stream ended for another reason; 130 after
                Ctrl-C.
                """,
            ),
        ],
    ),
    "send": More(("[FLAG...] SESSION TEXT...",)),
    "interject": More(("[FLAG...] SESSION TEXT...",)),
    "cancel": More(("[FLAG...] SESSION",)),
    "approvals": More(("[FLAG...] SESSION",)),
    "answer": More(
        ("[FLAG...] SESSION APPROVAL ANSWER...",),
        [
            (
                "ANSWERS",
                [
                    "allow-once, allow-always    a permission, or a plan",
                    "reject                      anything",
                    "choice:ID                   the option ID of a permission or a plan",
                    "question:ID[,ID...]         the options of a question; one such word for",
                    "                            each question, in their order",
                ],
            ),
            (
                "EXAMPLES",
                [
                    "craze-shed answer 3f9c perm-1 allow-once",
                    "craze-shed answer 3f9c q-1 question:rust question:pg,redis",
                ],
            ),
        ],
    ),
    "settings": More(("[FLAG...] SESSION",)),
    "set": More(
        ("[FLAG...] SESSION model|mode|OPTION VALUE",),
        [("EXAMPLES", ["craze-shed set 3f9c model grok-4.6", "craze-shed set 3f9c effort high"])],
    ),
    "rename": More(("[FLAG...] SESSION TITLE...",)),
    "stop": More(("[FLAG...] SESSION",)),
}
