"""A fake language model on 127.0.0.1, so that real coding agents run in tests with no network and
no key.

One process, one thread per connection, no state: every answer follows from the request's own
history. A prompt carries its script, one step per line:

    FAKE:text WORDS          the words, streamed one by one
    FAKE:slow N              N words, 200 ms apart: something to cancel
    FAKE:tool {"name": NAME, "input": {...}, "say": TEXT}    maybe text, then one tool call
    FAKE:error STATUS        that HTTP status

Each tool call in the agent's history moves one step on, so `tool` then `text` is a whole turn; past
the last step the answer is "All steps done.". A request that offers no tools is an agent's helper
(it wants a title): it never gets a tool call.

Spoken, by path: OpenAI Responses (`/responses`: codex-acp), OpenAI chat completions
(`/chat/completions`: opencode) and Anthropic Messages (`/messages`: claude-agent-acp). Keys and
headers are ignored. It writes `{"port": N}` to stdout and ends at the end of its stdin, so it never
outlives the test that started it.
"""

import contextlib
import http.server
import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

STEP_MARK = "FAKE:"
SLOW_WORD_S = 0.2
USAGE_IN, USAGE_OUT = 20, 5

_ids = itertools.count(1)


def fresh_id(prefix: str) -> str:
    """An id that no other answer has: agents pass them on as message and tool-call ids."""
    return f"{prefix}_{next(_ids):06d}"


class Said(NamedTuple):
    """One thing of a request's history: what a user wrote, or that the model called a tool."""

    kind: str  # "user" or "call"
    text: str = ""


class Answer(NamedTuple):
    """What the model does now: words, a pause before each, then maybe a call; or an HTTP error."""

    words: tuple[str, ...] = ()
    pause_s: float = 0.0
    tool: str = ""
    arguments: dict[str, Any] | None = None
    status: int = 0


# -- the script: pure -----------------------------------------------------------------------------


def words(text: str) -> tuple[str, ...]:
    """Split so that joining gives the text back: each word keeps its following space."""
    parts = text.split(" ")
    return (*(part + " " for part in parts[:-1]), parts[-1])


def answer_to(history: list[Said], has_tools: bool) -> Answer:
    """The answer that `history` asks for."""
    if not has_tools:
        return Answer(words("Fake title"))
    scripted = [
        at for at, said in enumerate(history) if said.kind == "user" and steps_of(said.text)
    ]
    if not scripted:
        heard = [said.text for said in history if said.kind == "user"]
        return Answer(words("You said: " + (heard[-1][-200:] if heard else "nothing")))
    steps = steps_of(history[scripted[-1]].text)
    done = sum(said.kind == "call" for said in history[scripted[-1] :])
    return step_answer(steps[done]) if done < len(steps) else Answer(words("All steps done."))


def steps_of(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line.removeprefix(STEP_MARK) for line in lines if line.startswith(STEP_MARK)]


def step_answer(step: str) -> Answer:
    verb, _, rest = step.partition(" ")
    if verb == "text":
        return Answer(words(rest))
    if verb == "slow":
        return Answer(tuple(f"tick {count} " for count in range(int(rest))), pause_s=SLOW_WORD_S)
    if verb == "tool":
        call = json.loads(rest)
        said = words(call["say"]) if "say" in call else ()
        return Answer(said, tool=call["name"], arguments=call["input"])
    if verb == "error":
        return Answer(status=int(rest))
    return Answer(words(f"no such step: {verb}"))


# -- the three APIs: history in, frames out -------------------------------------------------------
# A frame is (event name or "", data). Frames are made lazily: a slow answer pauses between them.

Frame = tuple[str, Any]


def texts(content: Any) -> Iterator[str]:
    """The texts of a message's content in any API: a string, or parts that have a `text`."""
    if isinstance(content, str):
        yield content
    else:
        yield from (part["text"] for part in content or () if isinstance(part.get("text"), str))


def paced(answer: Answer) -> Iterator[str]:
    for word in answer.words:
        if answer.pause_s:
            time.sleep(answer.pause_s)
        yield word


def responses_history(body: dict[str, Any]) -> list[Said]:
    history = []
    for item in body["input"]:
        if item.get("type", "message") == "message" and item.get("role") == "user":
            history += [Said("user", text) for text in texts(item["content"])]
        elif item.get("type") in ("function_call", "custom_tool_call"):
            history.append(Said("call"))
    return history


def responses_frames(answer: Answer, model: str) -> Iterator[Frame]:
    number = itertools.count()

    def frame(kind: str, **members: Any) -> Frame:
        return kind, {"type": kind, "sequence_number": next(number), **members}

    response = {"id": fresh_id("resp"), "object": "response", "model": model, "output": []}
    yield frame("response.created", response={**response, "status": "in_progress"})
    at = 0
    if answer.words:
        item = {"type": "message", "id": fresh_id("msg"), "role": "assistant", "content": []}
        yield frame("response.output_item.added", output_index=at, item=item)
        said = []
        for word in paced(answer):
            said.append(word)
            where = {"item_id": item["id"], "output_index": at, "content_index": 0}
            yield frame("response.output_text.delta", **where, delta=word)
        item["content"] = [{"type": "output_text", "text": "".join(said)}]
        yield frame("response.output_item.done", output_index=at, item=item)
        at += 1
    if answer.tool:
        item = {
            "type": "function_call",
            "id": fresh_id("fc"),
            "call_id": fresh_id("call"),
            "name": answer.tool,
        }
        item["arguments"] = json.dumps(answer.arguments)
        yield frame("response.output_item.added", output_index=at, item={**item, "arguments": ""})
        yield frame("response.output_item.done", output_index=at, item=item)
    usage = {
        "input_tokens": USAGE_IN,
        "output_tokens": USAGE_OUT,
        "total_tokens": USAGE_IN + USAGE_OUT,
    }
    yield frame("response.completed", response={**response, "status": "completed", "usage": usage})


def chat_history(body: dict[str, Any]) -> list[Said]:
    history = []
    for message in body["messages"]:
        if message["role"] == "user":
            history += [Said("user", text) for text in texts(message["content"])]
        history += [Said("call") for _ in message.get("tool_calls") or ()]
    return history


def chat_frames(answer: Answer, model: str) -> Iterator[Frame]:
    base = {
        "id": fresh_id("chatcmpl"),
        "object": "chat.completion.chunk",
        "created": int(time.time()),
    }

    def frame(delta: dict[str, Any], finish: str | None = None, **members: Any) -> Frame:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**base, "model": model, "choices": [choice], **members}

    yield frame({"role": "assistant", "content": ""})
    for word in paced(answer):
        yield frame({"content": word})
    if answer.tool:
        head = {"index": 0, "id": fresh_id("call"), "type": "function"}
        yield frame({"tool_calls": [{**head, "function": {"name": answer.tool, "arguments": ""}}]})
        arguments = json.dumps(answer.arguments)
        yield frame({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})
    usage = {
        "prompt_tokens": USAGE_IN,
        "completion_tokens": USAGE_OUT,
        "total_tokens": USAGE_IN + USAGE_OUT,
    }
    yield frame({}, "tool_calls" if answer.tool else "stop", usage=usage)
    yield "", "[DONE]"


def messages_history(body: dict[str, Any]) -> list[Said]:
    history = []
    for message in body["messages"]:
        if message["role"] == "user":
            history += [Said("user", text) for text in texts(message["content"])]
        elif not isinstance(message["content"], str):
            history += [
                Said("call") for part in message["content"] if part.get("type") == "tool_use"
            ]
    return history


def messages_frames(answer: Answer, model: str) -> Iterator[Frame]:
    def frame(kind: str, **members: Any) -> Frame:
        return kind, {"type": kind, **members}

    usage = {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT}
    usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": fresh_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    yield frame("message_start", message={**message, "stop_reason": None, "usage": usage})
    at = 0
    if answer.words:
        yield frame("content_block_start", index=at, content_block={"type": "text", "text": ""})
        for word in paced(answer):
            yield frame("content_block_delta", index=at, delta={"type": "text_delta", "text": word})
        yield frame("content_block_stop", index=at)
        at += 1
    if answer.tool:
        call = {"type": "tool_use", "id": fresh_id("toolu"), "name": answer.tool, "input": {}}
        yield frame("content_block_start", index=at, content_block=call)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        yield frame("content_block_delta", index=at, delta=delta)
        yield frame("content_block_stop", index=at)
    reason = {"stop_reason": "tool_use" if answer.tool else "end_turn", "stop_sequence": None}
    yield frame("message_delta", delta=reason, usage={"output_tokens": USAGE_OUT})
    yield frame("message_stop")


def whole_message(answer: Answer, model: str) -> dict[str, Any]:
    """The unstreamed form, which only helper requests use: text alone."""
    content = [{"type": "text", "text": "".join(answer.words)}]
    usage = {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT}
    message = {"id": fresh_id("msg"), "type": "message", "role": "assistant", "model": model}
    return {
        **message,
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


APIS = {
    "responses": (responses_history, responses_frames),
    "completions": (chat_history, chat_frames),
    "messages": (messages_history, messages_frames),
}


# -- HTTP -----------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.path.partition("?")[0].rpartition("/")[2]
        if name == "count_tokens":
            self.send_document(200, {"input_tokens": USAGE_IN})
        elif name in APIS:
            read_history, frames = APIS[name]
            answer = answer_to(read_history(body), bool(body.get("tools")))
            model = body.get("model", "")
            if answer.status:
                error = {
                    "type": "invalid_request_error",
                    "message": f"the script asked for {answer.status}",
                }
                self.send_document(answer.status, {"type": "error", "error": error})
            elif body.get("stream"):
                self.stream(frames(answer, model))
            else:
                self.send_document(200, whole_message(answer, model))
        else:
            self.send_document(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_GET(self) -> None:
        self.send_document(404, {"error": {"message": f"no such path: {self.path}"}})

    def send_document(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, frames: Iterator[Frame]) -> None:
        """Server-sent events, ended by closing; a reader that goes away has cancelled the turn."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            for event, data in frames:
                head = f"event: {event}\n" if event else ""
                text = data if isinstance(data, str) else json.dumps(data)
                self.wfile.write(f"{head}data: {text}\n\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the tests read this process's stderr only for a traceback."""


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
