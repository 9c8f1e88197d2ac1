"""The fake model's script: which answer follows from which history."""

import json
import urllib.request

import pytest

from tests.e2e.peers.agents import model_server
from tests.e2e.peers.model_server import Answer, Said, answer_to

TWO_STEPS = (
    'Do it.\nFAKE:tool {"name": "run", "input": {"x": 1}, "say": "let me"}\nFAKE:text all well'
)


@pytest.mark.parametrize(
    ("history", "answer"),
    [
        ([Said("user", "hello")], Answer(("You ", "said: ", "hello"))),
        ([Said("user", TWO_STEPS)], Answer(("let ", "me"), tool="run", arguments={"x": 1})),
        ([Said("user", TWO_STEPS), Said("call")], Answer(("all ", "well"))),
        (
            [Said("user", TWO_STEPS), Said("call"), Said("call")],
            Answer(("All ", "steps ", "done.")),
        ),
        (
            [Said("user", TWO_STEPS), Said("call"), Said("user", "FAKE:slow 2")],
            Answer(("tick 0 ", "tick 1 "), pause_s=0.2),
        ),
        ([Said("user", "FAKE:error 400")], Answer(status=400)),
    ],
    ids=["unscripted", "first step", "second step", "past the last", "a later script", "error"],
)
def test_an_answer_follows_from_the_history(history: list[Said], answer: Answer) -> None:
    assert answer_to(history, has_tools=True) == answer


def test_a_helper_request_never_gets_a_tool_call() -> None:
    assert answer_to([Said("user", TWO_STEPS)], has_tools=False).tool == ""


def test_the_server_streams_and_ends_with_its_starter() -> None:
    with model_server() as port:
        body = {"messages": [{"role": "user", "content": "FAKE:text a b"}], "stream": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            data=json.dumps(body | {"tools": [{}]}).encode(),
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            lines = response.read().decode().split("\n\n")
    deltas = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: {")]
    words = [delta["choices"][0]["delta"].get("content", "") for delta in deltas]
    assert "".join(words) == "a b"
    assert "data: [DONE]" in lines
