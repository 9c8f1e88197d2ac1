"""The slash catalog: which `/` commands a session offers and what running each does (tables 10.7).

Rows come in the order a menu lists them: craze's builtins, the agent's commands, plugin rows, disk
skills. The first to claim a name keeps it, whatever its letter case; a row with `requires` claims
none, because whether it is shown is not known here.
"""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

_PROMPT = {"kind": "prompt", "arg": "optional"}


def _local(action: str) -> Row:
    return {"kind": "local", "local": action}


def _builtins(modes: list[str], todos: bool, native: bool) -> Iterable[Row]:
    yield _row("help", "Keybindings and commands", _local("help"), working=True)
    yield _row(
        "model",
        "Switch model",
        {"kind": "picker", "arg": "optional", "argHint": "<model> [effort]", "picker": "model"},
    )
    if native:
        yield _row("connect", "Connect a model provider", _local("connect"))
    yield _row("clear", "Start over in a new session", _local("clear"))
    if todos:
        yield _row("tasks", "Show the task list", _local("tasks"), working=True)
    yield _row("theme", "Switch theme", _local("theme"), working=True)
    yield _row(
        "rename",
        "Rename this session, /rename <title>",
        {
            "kind": "method",
            "method": "session.setTitle",
            "param": "title",
            "arg": "required",
            "argHint": "<title>",
        },
        working=True,
    )
    for mode in ("plan", "ask", "agent"):
        run: Row = {
            "kind": "method",
            "method": "session.set",
            "setting": {"kind": "mode", "value": mode},
        }
        if mode not in modes:
            run = {"kind": "unavailable", "reason": f"mode {mode} is not advertised"}
        yield _row(mode, f"Set {mode} mode", run)
    yield _row(
        "btw",
        "Ask a side question (not saved): /btw <question>",
        {"kind": "aside", "param": "question", "arg": "required", "argHint": "<question>"},
        requires="aside",
        working=True,
    )
    yield _row(
        "exit",
        "End this session",
        {"kind": "method", "method": "session.stop"},
        requires="stop",
        working=True,
    )
    yield _row(
        "effort",
        "Change the current model's effort",
        {"kind": "picker", "arg": "optional", "argHint": "<level>", "picker": "effort"},
        requires="effort",
    )


def _row(
    name: str,
    description: str,
    run: Row,
    source: str = "builtin",
    plugin: str = "",
    qualified: str = "",
    requires: str = "",
    working: bool = False,
) -> Row:
    row: Row = {"name": name, "description": description, "source": source}
    if plugin:
        row["plugin"] = plugin
    if qualified:
        row["qualified"] = qualified
    if requires:
        row["requires"] = requires
    if working:
        row["whileWorking"] = True
    row["run"] = run
    return row


def catalog(
    *,
    modes: list[str],
    todos: bool = True,
    native: bool = False,
    commands: Iterable[Row] = (),
    plugins: Iterable[Row] = (),
    skills: Iterable[Row] = (),
) -> list[Row]:
    """The rows of a session: `modes` are the ids it advertises, `commands` and `skills` have a
    name and a description, `plugins` are plugin commands as the plugins section writes them."""
    offered: list[Row] = []
    claimed: set[str] = set()

    def offer(row: Row) -> bool:
        key = row["name"].casefold()
        if key in claimed or len(row["name"].split()) != 1:
            return False
        if "requires" not in row:
            claimed.add(key)
        offered.append(row)
        return True

    for row in _builtins(modes, todos, native):
        offer(row)
    for row in commands:
        offer(_row(row["name"], row.get("description", ""), _PROMPT, "agent"))
    for row in plugins:
        qualified = row.get("qualified", "")
        made = _row(
            row.get("bare", ""), row.get("description", ""), _PROMPT, "plugin",
            plugin=row.get("plugin", ""), qualified=qualified,
        )  # fmt: skip
        if not offer(made):
            offer(dict(made, name=qualified))
    for row in skills:
        offer(_row(row["name"], row.get("description", ""), _PROMPT, "skill"))
    return offered
