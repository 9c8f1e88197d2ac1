"""Scripts of craze-fake-agent about loading: what is replayed, when and how often."""

import json
from collections.abc import Callable
from typing import Any

from craze.fakes.agent import NOTHING, Agent, Refused, Script, Turn, load_session, new_session

_TurnOf = Callable[[Agent, Turn], Any]

TURNS = 3


def _missing(agent: Agent, params: dict[str, Any]) -> Any:
    raise Refused(-32002, f"session not found: {params['sessionId']}")


def _long(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    for number in range(200):
        agent.user(f"question {number} ")
        agent.user("in two pieces")
        agent.text(f"answer {number}")
    return agent.settings()


def _with_settings(agent: Agent, params: dict[str, Any]) -> Any:
    agent.mode, agent.model = "plan", "composer"
    agent.option("effort")["currentValue"] = "high"
    return load_session(agent, params)


def _replay(agent: Agent, *turns: int, ids: bool = False) -> None:
    """Some of the three turns; with `ids` each message has one, as newer agents' have."""
    for number in turns or range(1, TURNS + 1):
        told = (
            ("user_message_chunk", f"question {number}"),
            ("agent_thought_chunk", f"thinking {number}"),
            ("agent_message_chunk", f"looking {number}"),
        )
        for kind, words in told:
            named = {"messageId": f"{kind}-{number}"} if ids else {}
            agent.update(kind, content={"type": "text", "text": words}, **named)
        agent.update(
            "tool_call", toolCallId=f"replay-{number}-1", title=f"Read {number}.md", kind="read"
        )
        status = "completed" if number < TURNS or not ids else "in_progress"
        agent.update("tool_call_update", toolCallId=f"replay-{number}-1", status=status)
        named = {"messageId": f"answer-{number}"} if ids else {}
        agent.update(
            "agent_message_chunk", content={"type": "text", "text": f"answer {number}"}, **named
        )


def _turns(agent: Agent, params: dict[str, Any]) -> Any:
    """Its last tool was cut off by the end of the process that ran it."""
    agent.session = params["sessionId"]
    _replay(agent, ids=True)
    return agent.settings()


def _late(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    agent.reply(agent.answering, agent.settings())
    _replay(agent)
    return NOTHING


def _twice(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    _replay(agent)
    _replay(agent)
    return agent.settings()


def _nothing(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    return agent.settings()


def _once(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    _replay(agent)
    return agent.settings()


def _first(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    _replay(agent, 1)
    return agent.settings()


def _held(agent: Agent, params: dict[str, Any]) -> Any:
    request = agent.answering
    _first(agent, params)
    agent.gate("CRAZE_FAKE_GATE")
    agent.answering = request
    _replay(agent, 2, 3)
    return agent.settings()


def _then(echo: _TurnOf, *turns: int) -> _TurnOf:
    """Replays these turns, or all, within its first prompt."""

    def turn(agent: Agent, turn: Turn) -> None:
        if turn.number == 1:
            _replay(agent, *turns)
        echo(agent, turn)

    return turn


# ---- remember ----


def _file(agent: Agent) -> str:
    return f".fake-agent-{agent.session}.jsonl"


def _remember(agent: Agent, turn: Turn) -> None:
    words = f"echo: {turn.text}"
    agent.text(words)
    with open(_file(agent), "a", encoding="utf-8") as file:
        file.write(json.dumps([turn.text, words]) + "\n")


def _begin(agent: Agent, params: dict[str, Any]) -> Any:
    result = new_session(agent, params)
    with open(_file(agent), "w", encoding="utf-8"):
        return result


def _recall(agent: Agent, params: dict[str, Any]) -> Any:
    agent.session = params["sessionId"]
    try:
        with open(_file(agent), encoding="utf-8") as file:
            kept = [json.loads(line) for line in file]
    except FileNotFoundError:
        _missing(agent, params)
    for prompt, reply in kept:
        agent.user(prompt)
        agent.text(reply)
    return agent.settings()


def scripts(echo: _TurnOf, settings: _TurnOf) -> dict[str, Script]:
    """The scripts of this file; `echo` and `settings` are what their prompts do."""

    def loads(load: Callable[[Agent, dict[str, Any]], Any], turn: _TurnOf = echo) -> Script:
        return Script(turn, load=True, calls={"session/load": load})

    return {
        "load": Script(echo, load=True),
        "grok-load": Script(echo, grok=True, load=True),
        "load-missing": loads(_missing),
        "load-hang": loads(lambda agent, params: NOTHING),
        "load-long": loads(_long),
        "load-settings": loads(_with_settings, settings),
        "load-turns": loads(_turns),
        "load-late": loads(_late),
        "load-twice": loads(_twice),
        "load-nothing": loads(_nothing),
        "load-held": loads(_held),
        "load-again": loads(_once, _then(echo)),
        "load-split": loads(_first, _then(echo, 2, 3)),
        "remember": Script(
            _remember, load=True, calls={"session/new": _begin, "session/load": _recall}
        ),
    }
