"""A session's tool calls: each one's state, merged by its id, as the event codec's `tool` payload.

A member that an update has replaces what was there; an absent or null one leaves it (ACP's patch
rule). What is kept is already cut to the caps of codecs 1.4, so a large diff is held small.
"""

from collections.abc import Iterable
from typing import Any

from craze.agents import limits
from craze.agents.acp import diff, read
from craze.events.members import payload
from craze.transcript.text import head_marked, tail_marked
from craze.wire import json

Payload = dict[str, Any]

SETTLED = frozenset(("completed", "failed", "cancelled"))


class Tools:
    """The tool calls of one transcript. `task_names` are the tool names that start a sub-agent;
    `task_title` is how such a tool's title begins where the name does not say so."""

    def __init__(self, task_names: frozenset[str], task_title: str = "") -> None:
        self._task_names = task_names
        self._task_title = task_title
        self._held: dict[str, dict[str, Any]] = {}

    def update(self, call: dict[str, Any], meta: Any, at: str) -> Payload | None:
        """Merge a `tool_call`, a `tool_call_update` or a permission's `toolCall`; `meta` is the
        enclosing update's `_meta`. The whole payload when it changed anything, else None."""
        number = read.text(call, "toolCallId")
        if not number:
            return None
        fresh = number not in self._held
        held = self._held.setdefault(number, {})
        before = dict(held)
        _merge(held, call, meta if isinstance(meta, dict) else {})
        self._task(held, call)
        if fresh:
            self._forget()
        if held == before and not fresh:
            return None
        return _payload(number, held, at)

    def receipt(self, number: str, task: dict[str, Any], at: str) -> Payload | None:
        """Join what a vendor's task notice says to its tool call."""
        held = self._held.get(number)
        if held is None:
            return None
        merged = {**held.get("task", {}), **{k: v for k, v in task.items() if v}}
        if merged == held.get("task"):
            return None
        held["task"] = merged
        return _payload(number, held, at)

    def settle(self, status: str, at: str, only: Iterable[str] = ()) -> list[Payload]:
        """Give every unfinished call (or only those with a status in `only`) its last status."""
        wanted = set(only)
        made = []
        for number, held in self._held.items():
            now = held.get("status", "pending")
            if now in SETTLED or (wanted and now not in wanted):
                continue
            held["status"] = status
            if "task" in held:
                held["task"] = {**held["task"], "status": status}
            made.append(_payload(number, held, at))
        return made

    def title(self, number: str) -> str:
        """A call's title, or its tool's name; "" for an unknown one."""
        held = self._held.get(number, {})
        return held.get("title") or held.get("toolName") or ""

    def _task(self, held: dict[str, Any], call: dict[str, Any]) -> None:
        named = held.get("toolName") in self._task_names
        titled = self._task_title and held.get("title", "").startswith(self._task_title)
        if not (named or titled):
            return
        raw = call.get("rawInput")
        stated = {
            "description": read.text(raw, "description", "title"),
            "prompt": head_marked(read.text(raw, "prompt"), limits.TASK_PROMPT),
            "model": read.text(raw, "model"),
            "agentId": read.text(raw, "agentId", "agent_id"),
            "subagentType": read.text(raw, "subagentType", "subagent_type"),
            "background": read.flag(raw, "background", "run_in_background"),
        }
        task = {**held.get("task", {}), **{k: v for k, v in stated.items() if v}}
        status = held.get("status", "")
        if status:
            task["status"] = status if status in SETTLED else "running"
        held["task"] = task

    def _forget(self) -> None:
        """Keep the newest, first letting go of those that are finished."""
        if len(self._held) <= limits.TOOLS_KEPT:
            return
        settled = (n for n, held in self._held.items() if held.get("status") in SETTLED)
        del self._held[next(settled, next(iter(self._held)))]


def _payload(number: str, held: dict[str, Any], at: str) -> Payload:
    title = held.get("title", "")
    task = payload("task", **held["task"]) if "task" in held else None
    output = payload("output", **held["output"]) if "output" in held else None
    stated = {
        name: held[name]
        for name in ("status", "kind", "toolName", "rawInput", "contentText", "locations", "diffs")
        if name in held
    }
    return payload(
        "tool", id=number, name=title, title=title, task=task, output=output, at=at, **stated
    )


def _merge(held: dict[str, Any], call: dict[str, Any], meta: dict[str, Any]) -> None:
    for name in ("title", "status", "kind"):
        if isinstance(call.get(name), str):
            held[name] = call[name]
    name = _tool_name(call, meta)
    if name:
        held["toolName"] = name
    if call.get("rawInput") is not None:
        held["rawInput"] = head_marked(_input_text(call["rawInput"]), limits.RAW_INPUT)
    if isinstance(call.get("content"), list):
        held["contentText"] = tail_marked(_content_text(call["content"]), limits.CONTENT_TEXT)
        held["diffs"] = [
            _diff(item) for item in read.items(call, "content") if item.get("type") == "diff"
        ][: limits.DIFFS]
    if isinstance(call.get("locations"), list):
        paths = [read.text(place, "path") for place in read.items(call, "locations")]
        held["locations"] = [path for path in paths if path][: limits.LOCATIONS]
    if call.get("rawOutput") is not None:
        output = _output(call["rawOutput"])
        if output:
            held["output"] = output
    _terminal(held, meta)


def _tool_name(call: dict[str, Any], meta: dict[str, Any]) -> str:
    """The tool's own name: the newer protocol's member, or grok's, cursor's or claude's place."""
    return (
        read.text(call, "name")
        or read.text(read.inner(meta, "x.ai/tool"), "name")
        or read.text(call.get("rawInput"), "_toolName")
        or read.text(read.inner(meta, "claudeCode"), "toolName")
    )


def _input_text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    if not raw:
        return ""
    return read.text(raw, "command", "args", "prompt") or _compact(raw)


def _compact(value: Any) -> str:
    try:
        return json.dumps(value).decode()
    except ValueError:
        return ""


def _content_text(content: list[Any]) -> str:
    parts = []
    for item in content:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "content":
            parts.append(read.text(read.inner(item, "content"), "text"))
        elif kind == "text":  # a bare block, as one agent's plan mode writes it
            parts.append(read.text(item, "text"))
    return "".join(parts)


def _diff(item: dict[str, Any]) -> Payload:
    old, new = read.text(item, "oldText"), read.text(item, "newText")
    lines = diff.counts(old, new)
    kept = head_marked(old, limits.DIFF_TEXT), head_marked(new, limits.DIFF_TEXT)
    added, removed = lines or (0, 0)
    return payload(
        "diff",
        path=read.text(item, "path"),
        oldText=kept[0],
        newText=kept[1],
        added=added,
        removed=removed,
        truncated=lines is None or kept != (old, new),
    )


def _output(raw: Any) -> Payload | None:
    if isinstance(raw, list):
        raw = _content_text(raw)
    if isinstance(raw, str):
        return _capped({"content": raw})
    if not isinstance(raw, dict):
        return None
    stated: dict[str, Any] = {
        "stdout": read.text(raw, "stdout"),
        "stderr": read.text(raw, "stderr"),
        "content": read.text(raw, "content", "output"),
    }
    for name in ("exitCode", "exit_code"):
        if isinstance(raw.get(name), int) and not isinstance(raw[name], bool):
            stated["exitCode"] = raw[name]
            break
    return _capped(stated)


def _capped(stated: dict[str, Any]) -> Payload | None:
    made = {name: value for name, value in stated.items() if value or name == "exitCode"}
    for name in ("stdout", "stderr", "content"):
        whole = made.get(name, "")
        kept = tail_marked(whole, limits.OUTPUT_TEXT)
        if kept != whole:
            made[name] = kept
            made["truncated"] = True
            if name != "content":
                made[name + "Head"] = head_marked(whole, limits.OUTPUT_HEAD)
    return made or None


def _terminal(held: dict[str, Any], meta: dict[str, Any]) -> None:
    """Output that an agent streams beside the protocol, into a terminal that was never created."""
    data = read.text(read.inner(meta, "terminal_output_delta"), "data")
    status = read.inner(meta, "terminal_exit").get("exit_code")
    if not data and type(status) is not int:
        return
    output = dict(held.get("output", {}))
    if data:
        grown = _capped({"stdout": output.get("stdout", "") + data}) or {}
        if "stdoutHead" in output:
            grown["stdoutHead"] = output["stdoutHead"]
        output.update(grown)
    if type(status) is int:
        output["exitCode"] = status
    held["output"] = output
