"""Scripts of craze-fake-agent that misbehave, one kind of bad agent each.

All but `exit-two-lines` are called `bad-…`. Every one of these agents exists somewhere.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from craze.fakes.agent import NOTHING, Agent, Refused, Script, Turn, initialize, new_session

_TurnOf = Callable[[Agent, Turn], Any]


def _never(agent: Agent, params: dict[str, Any]) -> Any:
    return NOTHING


def _last_words(agent: Agent, params: dict[str, Any]) -> Any:
    print("Error: KEYCHAIN LOCKED", file=sys.stderr)
    print("Run unlock and retry.", file=sys.stderr)
    sys.exit(1)


def _silent(agent: Agent, params: dict[str, Any]) -> Any:
    print("waiting for the keychain", file=sys.stderr, flush=True)
    return NOTHING


def _unending(agent: Agent, turn: Turn) -> None:
    """Answers everything but its prompt, cancelled or not."""
    agent.until(lambda: False)


def _noise(agent: Agent, turn: Turn) -> None:
    """Log lines, half lines, arrays, numbers, strings, blank lines, NULs, a byte order mark."""
    agent.text("one ")
    for line in (
        b"[info] thinking\n", b'{"jsonrpc": "2.0", "method": "session/up\n', b"[1, 2, 3]\n",
        b"42\n", b'"hi"\n', b"null\n", b"\n", b"  \r\n", b"\xef\xbb\xbf{}\n", b"\xff\xfe\n",
        b"{}\n", b"\0\0\n", b'{"method": "a\0b"}\n',
        b'{"id": ' + b"9" * 5000 + b"}\n", b'{"method": 7}\n', b'{"method": "session/update"}\n',
        b'{"method": "session/update", "params": [1]}\n', b"[" * 100_000 + b"\n",
    ):  # fmt: skip
        agent.write(line)
    agent.text("two")


def _chunk(agent: Agent, words: str) -> str:
    """A line that says something, its words raw."""
    return (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
        + agent.session
        + '","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
        + words
        + '"}}}}'
    )


def _halves(agent: Agent, turn: Turn) -> None:
    """Every line in two writes with a pause between, two of them cut within a character."""
    line = (_chunk(agent, "naïve 🙂") + "\n").encode()
    for place in (1, line.index("ï".encode()) + 1, line.index("🙂".encode()) + 2, len(line) - 1):
        agent.write(line[:place])
        time.sleep(0.01)
        agent.write(line[place:])


def _huge(agent: Agent, turn: Turn) -> None:
    """Lines of the sizes that the prompt lists, in bytes without the newline."""
    for word in turn.text.split():
        words = "x" * (int(word) - len(_chunk(agent, "")))
        agent.write((_chunk(agent, words) + "\n").encode())
    agent.text("done")


def _endless(agent: Agent, turn: Turn) -> None:
    """As many mebibytes as the prompt says without a newline, then the end of that line."""
    piece = b"x" * (1 << 20)
    for _ in range(int(turn.text)):
        agent.write(piece)
    agent.write(b"\n")
    agent.text("done")


def _utf8(agent: Agent, turn: Turn) -> None:
    """Words with a byte that is no UTF-8, half a surrogate pair, an escape sequence."""
    for words in ("caf\udce9", "lone \\ud800 half", "esc \\u001b]0;x\\u0007"):
        agent.write((_chunk(agent, words) + "\n").encode("utf-8", "surrogateescape"))


def _wrapper(agent: Agent) -> None:
    """The process that was started is only a wrapper; what it wraps outlives it."""
    if os.environ.get("CRAZE_FAKE_WRAPPED") != "1":
        import subprocess  # a third of the start-up time, for this script alone

        child = subprocess.Popen(sys.argv, env={**os.environ, "CRAZE_FAKE_WRAPPED": "1"})
        sys.exit(child.wait())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _stubborn(agent: Agent) -> None:
    """Ignores the end of its input and every signal it can ignore."""
    os.environ["CRAZE_FAKE_LINGER"] = "1"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _die(agent: Agent, turn: Turn) -> None:
    agent.text("about to die")
    agent.ask("cursor/ask_question", {"questions": [{"id": "q", "prompt": "?", "options": []}]})
    print("panic: it is over", file=sys.stderr, flush=True)
    os._exit(3)


def _killed(agent: Agent, turn: Turn) -> None:
    agent.text("about to die")
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(agent: Agent, turn: Turn) -> None:
    agent.text("goodbye")
    os._exit(0)


def _mute(agent: Agent, turn: Turn) -> None:
    """Closes its output and lives on."""
    agent.text("last words")
    os.close(1)
    time.sleep(30)


def _deaf(agent: Agent, turn: Turn) -> None:
    """Reads nothing any more."""
    agent.text("not listening")
    time.sleep(30)


def _flood(agent: Agent, turn: Turn) -> None:
    """Requests without end, and never a look at the answers."""
    line = b'{"jsonrpc":"2.0","id":"' + b"x" * 60_000 + b'","method":"who/knows"}\n'
    while True:
        agent.write(line)


def _chatter(agent: Agent, turn: Turn) -> None:
    """More on stderr than a pipe holds, then the reply."""
    sys.stderr.write("y" * (1 << 20) + "\n")
    sys.stderr.flush()
    agent.text("done")


def _replies(agent: Agent, turn: Turn) -> None:
    """Replies that nobody asked for: without an id, of an unknown one, of another type, twice."""
    agent.send({"error": {"code": -32601, "message": "Method not found"}})
    for number in (9999, "1", 1.0, None, True, [1]):
        agent.send({"id": number, "result": {"stopReason": "stray"}})
    agent.text("done")


def _odd_ids(permission: Callable[[Agent], dict[str, Any]]) -> _TurnOf:
    def turn(agent: Agent, turn: Turn) -> None:
        """Requests nobody serves, under ids of every kind; the answers' ids as they came."""
        got = []
        for number in (0, -1, "uuid-like", "", None, 2**63, 1.5):
            agent.send({"id": number, "method": "fs/read_text_file", "params": {}})
            reply = None
            while reply is None:
                message = agent.read()
                if message is not None and "method" not in message:
                    reply = message
            got.append(f"{reply.get('id')!r}:{reply['error']['code']}")
        agent.text(" ".join(got))

    return turn


def _cancels_itself(permission: Callable[[Agent], dict[str, Any]]) -> _TurnOf:
    def turn(agent: Agent, turn: Turn) -> None:
        """Takes its own permission request back."""
        number = agent.ask("session/request_permission", permission(agent))
        agent.notify("$/cancel_request", {"requestId": str(number)})
        agent.notify("$/cancel_request", {"requestId": number})
        agent.notify("$/cancel_request", {"requestId": number})
        agent.answer(number)
        agent.text("taken back")

    return turn


def _late_permission(permission: Callable[[Agent], dict[str, Any]]) -> _TurnOf:
    def turn(agent: Agent, turn: Turn) -> str:
        """Asks once it has been cancelled."""
        agent.text("waiting")
        agent.hold()
        result = agent.request("session/request_permission", permission(agent)) or {}
        agent.text(f"decision:{result['outcome']['outcome']}")
        return "cancelled"

    return turn


def _two_permissions(permission: Callable[[Agent], dict[str, Any]]) -> _TurnOf:
    def turn(agent: Agent, turn: Turn) -> str | None:
        """Two at once, and talk while both wait."""
        numbers = []
        for call in ("call-a", "call-b"):
            params = permission(agent)
            params["toolCall"] = {"toolCallId": call, "title": call, "kind": "execute"}
            numbers.append(agent.ask("session/request_permission", params))
        agent.text("talking")
        said = [agent.answer(number)["outcome"] for number in numbers]
        agent.text(";".join(o.get("optionId", o["outcome"]) for o in said))
        return "cancelled" if "cancelled" in [outcome["outcome"] for outcome in said] else None

    return turn


def _bad_permission(agent: Agent, turn: Turn) -> None:
    """Permission requests that cannot be read; what each was answered."""
    codes = []
    for params in ({}, {"toolCall": 7, "options": []}, {"toolCall": {}, "options": "x"}, [1]):
        number = agent.ask("session/request_permission", params)  # type: ignore[arg-type]
        codes.append(str(agent.answered(number)["error"]["code"]))
    agent.text(" ".join(codes))


def _cancel_fails(agent: Agent, turn: Turn) -> str:
    """Answers a prompt that was cancelled with an error, as older agents do."""
    agent.text("waiting")
    agent.hold()
    raise Refused(-32603, "Operation was aborted")


def _ignores_cancel(agent: Agent, turn: Turn) -> None:
    """Ends its turn its own way, whatever it was told, with tools left open."""
    agent.update("tool_call", toolCallId="t1", title="Left open", status="pending")
    agent.update("tool_call", toolCallId="t2", title="At work", status="in_progress")
    agent.text("waiting")
    agent.hold()


def _open_tools(agent: Agent, turn: Turn) -> str:
    _ignores_cancel(agent, turn)
    return "cancelled"


def _catalog(value: Any) -> dict[str, Any]:
    def answer(agent: Agent, params: dict[str, Any]) -> Any:
        return {"configOptions": value}

    return {"session/set_config_option": answer}


def _version(agent: Agent, params: dict[str, Any]) -> Any:
    return {**initialize(agent, params), "protocolVersion": 2}


def _nameless(agent: Agent, params: dict[str, Any]) -> Any:
    result = new_session(agent, params)
    del result["sessionId"]
    return result


def _brief(agent: Agent, params: dict[str, Any]) -> Any:
    """Opens the session and is gone."""
    agent.reply(agent.answering, new_session(agent, params))
    os._exit(5)


def _null_load(agent: Agent, params: dict[str, Any]) -> Any:
    """Answers before it replays."""
    agent.session = params["sessionId"]
    agent.reply(agent.answering, None)
    agent.user("question 1")
    agent.text("answer 1")
    return NOTHING


def _frames(agent: Agent, turn: Turn) -> None:
    """The lines of the file that the prompt names, as they are."""
    with open(turn.text, "rb") as file:
        agent.write(file.read())


def _grows(agent: Agent, turn: Turn) -> None:
    """A tool whose output grows, told whole each time, and out of every cap."""
    for count in range(20):
        agent.update(
            "tool_call" if count == 0 else "tool_call_update",
            toolCallId="grows",
            title="Build",
            kind="execute",
            rawInput={"command": "make " + "x" * 1000},
            locations=[{"path": f"/f{n}"} for n in range(20)],
            content=[{"type": "content", "content": {"type": "text", "text": "é" * 400 * count}}],
            rawOutput={"exitCode": 0, "stdout": "é" * 1000 * count, "stderr": "e" * 100},
        )


def scripts(echo: _TurnOf, permission: Callable[[Agent], dict[str, Any]]) -> dict[str, Script]:
    """The scripts of this file; `permission` makes the params that the good one asks with."""
    return {
        "exit-two-lines": Script(echo, calls={"initialize": _last_words}),
        "bad-silent": Script(echo, calls={"initialize": _silent}),
        "bad-new-silent": Script(echo, calls={"session/new": _never}),
        "bad-set-silent": Script(
            echo, calls={"session/set_mode": _never, "session/set_config_option": _never}
        ),
        "bad-prompt-silent": Script(_unending),
        "bad-noise": Script(_noise),
        "bad-halves": Script(_halves),
        "bad-huge": Script(_huge),
        "bad-endless": Script(_endless),
        "bad-utf8": Script(_utf8),
        "bad-wrapper": Script(echo, begin=_wrapper),
        "bad-stubborn": Script(echo, begin=_stubborn),
        "bad-die": Script(_die),
        "bad-killed": Script(_killed),
        "bad-leave": Script(_leave),
        "bad-mute": Script(_mute),
        "bad-deaf": Script(_deaf),
        "bad-flood": Script(_flood),
        "bad-chatter": Script(_chatter),
        "bad-replies": Script(_replies),
        "bad-ids": Script(_odd_ids(permission)),
        "bad-cancels-itself": Script(_cancels_itself(permission)),
        "bad-late-permission": Script(_late_permission(permission)),
        "bad-two-permissions": Script(_two_permissions(permission)),
        "bad-permission": Script(_bad_permission),
        "bad-cancel-fails": Script(_cancel_fails),
        "bad-ignores-cancel": Script(_ignores_cancel),
        "bad-open-tools": Script(_open_tools),
        "bad-catalog": Script(echo, calls=_catalog("nothing")),
        "bad-catalog-items": Script(echo, calls=_catalog([7, "x"])),
        "bad-version": Script(echo, calls={"initialize": _version}),
        "bad-nameless": Script(echo, calls={"session/new": _nameless}),
        "bad-brief": Script(echo, calls={"session/new": _brief}),
        "bad-load-early": Script(echo, load=True, calls={"session/load": _null_load}),
        "bad-frames": Script(_frames),
        "bad-grows": Script(_grows),
    }
