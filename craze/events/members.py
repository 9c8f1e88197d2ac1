"""The members of an event and of its payloads, in wire order (codecs 1.2 to 1.5).

These tables are the one statement of order: the constructors write by them, and the tests hold the
published schema against them.
"""

from typing import Any, Final

TYPES: Final = (
    "text",
    "thought",
    "tool",
    "todos",
    "permission",
    "question",
    "plan",
    "done",
    "error",
    "meta",
    "user",
    "subagent",
    "queue",
    "command",
    "foreign_turn",
    "replay",
    "turn",
    "ask",
    "compaction",
)

EVENT: Final = (
    "type",
    "text",
    "mode",
    "agent",
    "tool",
    "todos",
    "permission",
    "question",
    "plan",
    "subagent",
    "subagentChange",
    "queue",
    "queueChange",
    "queuePos",
    "command",
    "interjection",
    "foreignTurn",
    "turn",
    "ask",
    "state",
    "replay",
    "replayed",
    "compaction",
    "cause",
    "err",
    "stopReason",
    "at",
)

PAYLOADS: Final[dict[str, tuple[str, ...]]] = {
    "tool": (
        "id", "name", "status", "kind", "title", "toolName", "rawInput", "contentText",
        "locations", "output", "diffs", "task", "at",
    ),
    "output": (
        "exitCode", "stdout", "stderr", "content", "stdoutHead", "stderrHead", "truncated",
    ),
    "diff": ("path", "oldText", "newText", "added", "removed", "truncated"),
    "task": (
        "description", "prompt", "model", "agentId", "subagentType", "durationMs", "receipt",
        "status", "background",
    ),
    "todo": ("id", "content", "status"),
    "permission": ("id", "tool", "options"),
    "permissionOption": ("optionId", "name", "kind"),
    "question": ("id", "title", "questions", "auto", "answers"),
    "subQuestion": ("id", "prompt", "options", "allowMultiple"),
    "questionOption": ("id", "label", "description"),
    "plan": ("id", "name", "overview", "plan", "todos", "auto", "accepted"),
    "ask": (
        "id", "kind", "outcome", "by", "optionId", "answers", "skip", "accepted", "label", "body",
    ),
    "subagent": (
        "id", "attemptId", "parentId", "toolCallId", "description", "subagentType", "model",
        "status", "error", "prompt", "output", "activity", "startedAt", "endedAt", "durationMs",
        "toolCalls", "turns", "tokensUsed", "toolsUsed", "transcript", "background",
    ),
    "queue": ("id", "text", "queuedAt", "version"),
    "pluginCommand": ("plugin", "bare", "display", "qualified", "description", "kind"),
    "command": ("pluginCommand", "path", "text"),
    "foreignTurn": ("id", "text", "reason", "running"),
    "turn": (
        "id", "phase", "text", "origin", "stopReason", "errClass", "err", "synthetic", "next",
        "pending",
    ),
    "replay": ("phase",),
    "compaction": ("phase", "reason", "tokensBefore", "tokensAfter", "err"),
    "state": (
        "title", "mode", "model", "config", "commands", "plugins", "sendNow", "usage", "catalog",
        "slash", "reason", "detail", "indexErr",
    ),
    "option": ("id", "name", "category", "type", "current", "selectValues"),
    "selectValue": ("value", "name"),
    "agentCommand": ("name", "description"),
    "sendNow": ("armed", "text", "fromRow", "turn"),
    "model": ("id", "name", "recent", "efforts", "defaultEffort", "switchEffort"),
}  # fmt: skip

# The objects of a state delta that are built where their facts are, not by `payload`. Of err,
# usage and spending every member is always written; of a catalog, its revision (codecs 1.1).
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "err": ("message", "class", "code"),
    "config": ("options",),
    "commands": ("commands",),
    "plugins": ("plugins",),
    "usage": ("contextTokens", "contextWindow", "turn", "session"),
    "spending": (
        "input", "output", "reasoning", "cacheRead", "cacheCreation", "costPicoUsd", "unpriced",
    ),
    "catalog": ("models", "revision"),
    "slash": ("items",),
    "slashRow": (
        "name", "description", "source", "plugin", "qualified", "requires", "whileWorking", "run",
    ),
    "slashRun": (
        "kind", "method", "param", "setting", "arg", "argHint", "picker", "local", "reason",
    ),
    "slashSetting": ("kind", "value"),
    "askBody": ("permission", "question", "plan"),
}  # fmt: skip


def payload(kind: str, /, **members: Any) -> dict[str, Any]:
    """An object of `kind` with its members in wire order and those at their zero value left out.

    Zero is `""`, `0`, `False`, `None` and an empty list. A dict is kept even when it is empty: an
    object that is present and empty says something (codecs 1.1), so leave an absent one out as
    None. `exitCode` is written whenever it is not None. Raises KeyError for an unknown member.
    """
    order = PAYLOADS[kind]
    unknown = members.keys() - set(order)
    if unknown:
        raise KeyError(f"{kind} has no member {sorted(unknown)[0]}")
    made: dict[str, Any] = {}
    for name in order:
        value = members.get(name)
        if value or isinstance(value, dict) or (name == "exitCode" and value is not None):
            made[name] = value
    return made
