"""`craze new`: what it asks the hub for, and what it says of every outcome."""

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import craze
from craze.cli import app, new
from craze.client import hubs
from craze.machine.paths import Paths

from .conftest import Run
from .stand_in import HANG_UP, SILENT, StandIn, refusal

ID = "0190ab12-cd34-7ef0-8123-456789abcdef"
BAD = "[/x]\x1b]0;t\x07\x1b[2J\x9b2J\u202eo\nk"
HOST = {"pid": 1, "crazeVersion": "0", "protocol": 1, "provider": "grok", "workspace": "/w",
        "startedAt": "2026-01-01T00:00:00Z", "ready": True}  # fmt: skip
SESSION = {"hostId": "3c4d5e6f7a8b", "sessionId": ID, "host": HOST, "status": "reachable",
           "approximate": False}  # fmt: skip
CREATED = {"result": {"session": SESSION, "prompt": "none"}}
MAY_HAVE = "the session may start all the same: see craze ps"
LOST = f"craze new: the connection to the hub was lost before it answered; {MAY_HAVE}\n"

Hub = Callable[..., StandIn]


@pytest.fixture
def hub(environ: dict[str, str]) -> Iterator[Hub]:
    """Run a hub that answers a create, or another method, with these."""
    made: list[StandIn] = []

    def start(*answers: Any, method: str = "session.create", lacks: Any = ()) -> StandIn:
        made.append(StandIn(Paths.of(os.environ), lacks=lacks))
        made[0].answers[method] = list(answers)
        return made[0]

    yield start
    for one in made:
        one.close()


# ---- what is asked for ----


def test_the_least(run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    stand_in = hub(CREATED)
    assert run(app.main, "new") == (0, "started 89abcdef in /w\n", "")
    [request] = stand_in.asked
    assert list(request["params"]) == ["cwd", "requestId"]
    assert request["params"]["cwd"] == "/tmp"
    assert re.fullmatch("new-[0-9a-f]{16}", request["params"]["requestId"])
    assert stand_in.clients == [
        {"kind": "cli", "name": "craze hub ensure"},
        {"kind": "cli", "name": "craze new", "version": craze.__version__},
    ]


def test_everything(run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    stand_in = hub(CREATED)
    line = (
        *("-C", "tmp/../tmp", "--provider=grok", "--model", "m", "--effort=high", "--fast"),
        *("--no-force", "--title", " Flaky  test ", "fix", "the", "--", "--flaky  test"),
    )
    assert run(app.main, "new", *line)[0] == 0
    params = stand_in.asked[0]["params"]
    assert params.pop("requestId").startswith("new-")
    assert params == {
        "cwd": "/tmp", "prompt": "fix the --flaky  test", "provider": "grok", "model": "m",
        "effort": "high", "fast": True, "permissionMode": "prompt", "title": "Flaky  test",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (("--dir=/tmp",), "cwd", "/tmp"),
        (("-C/tmp/",), "cwd", "/tmp"),
        (("-C", "~"), "cwd", "{HOME}"),
        (("-C", ""), "cwd", "/"),
        (("--no-fast",), "fast", False),
        ((), "fast", None),
        ((), "permissionMode", None),
        (("",), "prompt", None),
        ((" ", "\n"), "prompt", None),
        ((" a",), "prompt", " a"),
        (("--model=",), "model", None),
        (("--provider=",), "provider", None),
        (("--provider=native",), "provider", "native"),
        (("--effort=",), "effort", None),
        (("--title=",), "title", None),
        (("--title= ",), "title", None),
    ],
)
def test_single_flags(
    run: Run, hub: Hub, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch,
    line: tuple[str, ...], name: str, value: Any,
) -> None:  # fmt: skip
    monkeypatch.chdir("/")
    stand_in = hub(CREATED)
    assert run(app.main, "new", *line)[0] == 0
    expected = environ["HOME"] if value == "{HOME}" else value
    assert stand_in.asked[0]["params"].get(name) == expected


def test_a_provider_of_the_users_own(run: Run, hub: Hub, environ: dict[str, str]) -> None:
    os.mkdir(f"{environ['HOME']}/.craze")
    with open(f"{environ['HOME']}/.craze/config.toml", "w") as file:
        file.write('[providers.mine]\ncommand = ["x"]\n')
    stand_in = hub(CREATED)
    assert run(app.main, "new", "--provider=mine")[0] == 0
    assert stand_in.asked[0]["params"]["provider"] == "mine"


def test_a_saved_session(run: Run, hub: Hub) -> None:
    stand_in = hub({"result": {"session": SESSION, "joined": False}}, method="session.reopen")
    assert run(app.main, "new", "--load", "grok:4f1e 2d") == (0, "started 89abcdef in /w\n", "")
    assert stand_in.asked[0]["params"] == {"id": "grok:4f1e 2d"}


def test_a_saved_session_that_runs(run: Run, hub: Hub) -> None:
    hub({"result": {"session": SESSION, "joined": True}}, method="session.reopen")
    assert run(app.main, "new", "--load", ID, "") == (0, "joined 89abcdef in /w\n", "")


# ---- what is printed ----


def test_an_outcome_of_the_prompt_that_nobody_knows(run: Run, hub: Hub) -> None:
    hub({"result": {"session": SESSION, "prompt": "unknown", "promptError": "lost"}})
    said = "started 89abcdef in /w; the prompt may not have reached it\n"
    assert run(app.main, "new", "hi") == (0, said, "")


def test_a_prompt_that_was_refused(run: Run, hub: Hub) -> None:
    answer = {"session": SESSION, "prompt": "refused", "promptError": "the queue is full"}
    hub({"result": answer})
    said = "craze new: the session started and refused its first prompt: the queue is full\n"
    assert run(app.main, "new", "hi") == (1, "started 89abcdef in /w\n", said)
    code, out, err = run(app.main, "new", "hi", "--json")
    assert (code, json.loads(out), err) == (1, answer, said)


def test_json_is_what_the_hub_said_byte_for_byte(run: Run, hub: Hub) -> None:
    raw = b'{"prompt":"none","session":{"row":{"z":1.0,"a":[1e3,"\\u003c\xc3\xa9"]}},"later":null}'
    hub(raw)
    assert run(app.main, "new", "--json") == (0, raw.decode() + "\n", "")


def test_b71_b72_nothing_of_a_peers_acts_on_a_terminal_or_is_markup(run: Run, hub: Hub) -> None:
    session = {"sessionId": BAD, "host": {"workspace": BAD}}
    answer = {"session": session, "prompt": "refused", "promptError": BAD}
    hub({"result": answer}, refusal("failed", "failed", BAD, cause=BAD))
    said = "craze new: the session started and refused its first prompt: [/x]o k\n"
    assert run(app.main, "new", "hi") == (1, "started [/x]o k in [/x]o k\n", said)
    code, out, err = run(app.main, "new", "--json")
    assert (code, err) == (1, "craze new: [/x]o k\n")
    assert out.rstrip("\n").isprintable() and json.loads(out)["error"]["message"] == BAD


@pytest.mark.parametrize("odd", [{}, [], {"session": 7, "prompt": []}, {"session": {"host": None}}])
def test_an_answer_of_another_build_is_read_as_far_as_it_can_be(
    run: Run, hub: Hub, odd: Any
) -> None:
    hub({"result": odd})
    assert run(app.main, "new") == (0, "started  in \n", "")


# ---- failures ----


def test_a_refusal(run: Run, hub: Hub) -> None:
    cause = "the agent could not start: no such binary"
    message = f"the session did not start: {cause}"
    answer = refusal("not_accepting", "start_failed", message, cause=cause)
    hub(answer)
    assert run(app.main, "new") == (1, "", f"craze new: {message}\n")
    line = json.dumps(answer, separators=(",", ":")) + "\n"
    assert run(app.main, "new", "--json") == (1, line, f"craze new: {message}\n")


def test_a_cause_that_the_message_does_not_have_is_told_too(run: Run, hub: Hub) -> None:
    hub(refusal("not_accepting", "start_failed", "the session did not start", cause="why"))
    assert run(app.main, "new") == (1, "", "craze new: the session did not start: why\n")


def test_a_refusal_with_a_result(run: Run, hub: Hub) -> None:
    error = {
        "code": -32601,
        "message": "",
        "data": {"code": "c", "reason": "r", "result": {"a": 1}},
    }
    hub({"error": error})
    line = json.dumps({"error": error}, separators=(",", ":")) + "\n"
    assert run(app.main, "new", "--json") == (1, line, "craze new: c\n")


NO_DEFAULT = refusal(
    "bad_request", "bad_request",
    "params.provider is required: this hub has no default provider (config.toml's provider)",
)  # fmt: skip


def test_no_default_provider(run: Run, hub: Hub, environ: dict[str, str]) -> None:
    hub(NO_DEFAULT)
    said = "craze new: no default provider yet; pass --provider cursor, grok, gx or native\n"
    assert run(app.main, "new") == (1, "", said)
    code, out, err = run(app.main, "new", "--json")
    assert (code, err) == (1, said)
    assert json.loads(out) == NO_DEFAULT
    os.mkdir(f"{environ['HOME']}/.craze")
    with open(f"{environ['HOME']}/.craze/config.toml", "w") as file:
        file.write('[providers.mine]\ncommand = ["x"]\n')
    said = "craze new: no default provider yet; pass --provider cursor, grok, gx, native or mine\n"
    assert run(app.main, "new") == (1, "", said)


@pytest.mark.parametrize(
    ("line", "lacks", "what"),
    [
        ("", ("sessionCreate",), "create sessions"),
        ("--title=T", ("createTitle",), "set a title at create"),
        ("--title=T", ("createTitle", "sessionCreate"), "create sessions or set a title at create"),
        (f"--load={ID}", ("reopen",), "reopen a saved session"),
    ],
)
def test_a_hub_from_before(
    run: Run, hub: Hub, line: str, lacks: tuple[str, ...], what: str
) -> None:
    stand_in = hub(CREATED, lacks=lacks)
    said = f"this hub (craze 9.9) cannot {what}; it exits when idle"
    assert run(app.main, "new", *line.split()) == (1, "", f"craze new: {said}\n")
    code, out, _ = run(app.main, "new", "--json", *line.split())
    assert (code, json.loads(out)) == (1, {"error": {"message": said}})
    assert stand_in.asked == []


def test_an_untitled_create_needs_no_hub_with_titles(run: Run, hub: Hub) -> None:
    hub(CREATED, lacks=("createTitle", "reopen", "createOptions"))
    assert run(app.main, "new")[0] == 0


def test_no_hub_to_be_had(run: Run, environ: dict[str, str], mocker: Any) -> None:
    mocker.patch.object(hubs, "find_or_start", side_effect=hubs.HubError("start craze hub: [no]"))
    assert run(app.main, "new") == (1, "", "craze new: start craze hub: [no]\n")


def test_b10_a_create_whose_answer_is_lost_is_asked_for_again_under_the_same_id(
    run: Run, hub: Hub
) -> None:
    stand_in = hub(HANG_UP, CREATED)
    assert run(app.main, "new", "hi") == (0, "started 89abcdef in /w\n", "")
    first, second = stand_in.asked
    assert first["params"] == second["params"]


def test_b10_a_reopen_whose_answer_is_lost_is_asked_for_again(run: Run, hub: Hub) -> None:
    answer = {"result": {"session": SESSION, "joined": True}}
    stand_in = hub(HANG_UP, answer, method="session.reopen")
    assert run(app.main, "new", "--load", ID)[:2] == (0, "joined 89abcdef in /w\n")
    assert [request["params"] for request in stand_in.asked] == [{"id": ID}, {"id": ID}]


def test_a_hub_that_is_leaving_is_asked_again(run: Run, hub: Hub) -> None:
    closing = refusal("unavailable", "closing", "the hub is closing")
    stand_in = hub(closing, CREATED, closing)
    assert run(app.main, "new")[0] == 0
    assert run(app.main, "new") == (1, "", "craze new: the hub is closing\n")
    assert len(stand_in.asked) == 4


def test_b10_two_lost_answers_are_no_failure_of_the_create(run: Run, hub: Hub) -> None:
    stand_in = hub(HANG_UP)
    assert run(app.main, "new") == (1, "", LOST)
    assert len(stand_in.asked) == 2
    code, out, err = run(app.main, "new", "--json")
    message = LOST.removeprefix("craze new: ").rstrip("\n")
    assert (code, json.loads(out), err) == (1, {"error": {"message": message}}, LOST)


@pytest.mark.parametrize(
    ("line", "method", "constant"),
    [
        ("", "session.create", "CREATE_PATIENCE"),
        (f"--load={ID}", "session.reopen", "REOPEN_PATIENCE"),
    ],
)
def test_b10_no_answer_in_time_is_no_failure_of_the_create(
    run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch, line: str, method: str, constant: str
) -> None:
    monkeypatch.setattr(new, constant, 1.0)
    stand_in = hub(SILENT, method=method)
    said = f"craze new: the hub gave no answer within 1s; {MAY_HAVE}\n"
    assert run(app.main, "new", *line.split()) == (1, "", said)
    assert len(stand_in.asked) == 1


def test_what_is_allowed_for() -> None:
    assert (new.CREATE_PATIENCE, new.REOPEN_PATIENCE) == (120, 200)


def test_b10_a_hub_lost_after_it_was_asked_and_not_found_again(
    run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(HANG_UP)
    find, found = hubs.find_or_start, []

    def once(*args: Any, **options: Any) -> Any:
        if found:
            raise hubs.HubError("start craze hub: no")
        found.append(find(*args, **options))
        return found[0]

    monkeypatch.setattr(hubs, "find_or_start", once)
    assert run(app.main, "new") == (1, "", f"craze new: start craze hub: no; {MAY_HAVE}\n")


def test_what_is_wrong_here_is_said_before_a_hub_is_asked(
    run: Run, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "/nowhere is not a directory"
    assert run(app.main, "new", "-C", "/nowhere") == (1, "", f"craze new: {said}\n")
    line = json.dumps({"error": {"message": said}}, separators=(",", ":")) + "\n"
    expected = (1, line, f"craze new: {said}\n")
    assert run(app.main, "new", "-C", "/nowhere", "--json") == expected
    monkeypatch.setenv("HOME", "x")
    assert run(app.main, "new") == (1, "", "craze new: HOME='x' is not an absolute path\n")


def test_a_current_directory_that_is_gone(
    run: Run, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = f"{environ['HOME']}/gone"
    os.mkdir(gone)
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    said = "craze new: the current directory: no such file or directory\n"
    assert run(app.main, "new") == (1, "", said)


def test_it_can_be_interrupted(run: Run, environ: dict[str, str], mocker: Any) -> None:
    mocker.patch.object(hubs, "find_or_start", side_effect=KeyboardInterrupt)
    assert run(app.main, "new") == (130, "", f"craze new: interrupted; {MAY_HAVE}\n")


# ---- usage ----


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--fast --no-fast", "--fast and --no-fast are mutually exclusive"),
        ("--load=x --model=m", "--load and --model are mutually exclusive"),
        ("--load=x -C /", "--load and --dir are mutually exclusive"),
        ("--load=x --dir=", "--load and --dir are mutually exclusive"),
        ("--load=x --provider=grok", "--load and --provider are mutually exclusive"),
        ("--load=x --effort=e", "--load and --effort are mutually exclusive"),
        ("--load=x --fast", "--load and --fast are mutually exclusive"),
        ("--load=x --no-fast", "--load and --no-fast are mutually exclusive"),
        ("--load=x --no-force", "--load and --no-force are mutually exclusive"),
        ("--load=x --title=t", "--load and --title are mutually exclusive"),
        ("--load=x hunter2", "--load and a prompt are mutually exclusive"),
        ("--load=", '--load "" names no session id'),
        ("--title=\x1b]0;x\x07", "--title needs a character that shows"),
        ("--hunter2[b]", "unknown or malformed flag; see craze new --help"),
        ("-x", "unknown or malformed flag; see craze new --help"),
        ("--model", "unknown or malformed flag; see craze new --help"),
        ("--fast=1", "unknown or malformed flag; see craze new --help"),
        ("--force", "unknown or malformed flag; see craze new --help"),
    ],
)
def test_b72_usage_errors(run: Run, line: str, text: str) -> None:
    assert run(app.main, "new", *line.split()) == (2, "", f"craze new: {text}\n")
    code, out, err = run(app.main, "new", "--json", *line.split())
    if text.startswith("unknown or malformed"):  # who cannot be understood asked for nothing
        assert (code, out, err) == (2, "", f"craze new: {text}\n")
        return
    assert (code, json.loads(out), err) == (2, {"error": {"message": text}}, f"craze new: {text}\n")


def test_an_unknown_provider(run: Run) -> None:
    said = 'craze: unknown provider "x" (want cursor, grok, gx, or native)\n'
    assert run(app.main, "new", "--provider=x") == (2, "", said)


def test_an_old_configuration_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAZE_CONFIG", "/x")
    code, out, err = run(app.main, "new")
    assert (code, out) == (2, "") and err.startswith("craze: CRAZE_CONFIG is no longer supported")
