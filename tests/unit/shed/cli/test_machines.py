"""The commands about a machine."""

import json
import os
from pathlib import Path

import pytest

from craze_shed.cli import machines, reaching
from craze_shed.contract import errors, frames
from craze_shed.contract.creating import (
    LaneCreated,
    LaneCreateOptions,
    LaneCreateRequest,
    LaneProvider,
    LaneReopened,
    LaneSavedList,
    LaneSavedSession,
)
from craze_shed.reach import ReachError
from ladder.outcome import Kind, Outcome

from .conftest import BAD, ID, OTHER, PLAIN, interrupt, listed, session, unknown


def told(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


# ---- machines ----


@pytest.fixture
def probed(monkeypatch):
    """What is found on each machine, by the word that it is reached by; an exception is raised."""
    found = {}

    class Reach:
        def __init__(self, word):
            self.word = word

        def __enter__(self):
            return self

        def __exit__(self, *_):
            found.setdefault("closed", []).append(self.word)

    class Dialer:
        def __init__(self, reach, *, eager):
            self.word = reach.word
            assert not eager

        def probe(self):
            answer = found[self.word]
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr("craze_shed.craze.dial.Dialer", Dialer)
    monkeypatch.setattr(reaching, "check_patched", lambda machine: None)
    monkeypatch.setattr(reaching.config.Machine, "reach", lambda self: Reach(self.word))
    return found


FILE = """
[machines]
build = "ssh:build"
"the box" = "paramiko:box"
old = "ssh:old"
far = "ssh:far"
bare = "ssh:bare"
typo = 7
"""


def test_machines_are_listed_with_what_runs_there(run, home, probed):
    where = home / ".config/craze-shed/machines.toml"
    where.parent.mkdir(parents=True)
    where.write_text(FILE)
    probed.update({
        "local": Outcome(Kind.HUB, ""),
        "ssh:build": Outcome(Kind.NO_HUB, "no hub is running"),
        "paramiko:box": Outcome(Kind.UNREACHABLE, BAD),
        "ssh:old": Outcome(Kind.TOO_OLD, "craze is too old"),
        "ssh:far": ReachError("no route"),
        "ssh:bare": Outcome(Kind.NOT_INSTALLED, "craze is not installed"),
    })  # fmt: skip
    wrong = f'{where}: machines.typo: expected "local", "ssh:HOST" or "paramiko:HOST",'
    code, out, err = run("machines")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "MACHINE  REACHED AS    STATUS",
        "local    local         a hub is running",
        "build    ssh:build     craze is installed; no hub is running",
        f"the box  paramiko:box  offline (unreachable): {PLAIN}",
        "old      ssh:old       offline (too_old): craze is too old",
        "far      ssh:far       offline (unreachable): no route",
        "bare     ssh:bare      offline (not_installed): craze is not installed",
        f"typo     -             offline (bad_request): {wrong} got an integer",
    ]
    assert len(probed["closed"]) == 6
    code, out, err = run("machines", "--json")
    assert (code, err) == (0, "")
    assert told(out)[:2] == [
        {"machine": "local", "reach": "local", "state": "live"},
        {"machine": "build", "reach": "ssh:build", "state": "dormant"},
    ]
    assert [one["state"] for one in told(out)[2:]] == ["offline"] * 3 + ["absent"] * 2
    assert told(out)[2]["reason"] == BAD and "\x1b" not in out


def test_a_file_that_is_no_toml_is_told(run, monkeypatch, tmp_path):
    where = tmp_path / "m.toml"
    where.write_text("[machines")
    monkeypatch.setenv("CRAZE_SHED_CONFIG", str(where))
    for line in ("machines", "sessions -m build", "watch -m build 0123"):
        code, out, err = run(*line.split())
        assert (code, out) == (1, "")
        assert err.startswith(f"craze-shed {line.split()[0]}: {where}: not TOML: ")


@pytest.mark.parametrize("command", ["sessions", "options", "saved", "new -C /w", "resume x"])
def test_a_machine_that_is_none_is_told(run, command):
    code, out, err = run(*command.split(), "--machine=shh:x", "--json")
    said = 'expected "local", "ssh:HOST" or "paramiko:HOST", got "shh:x"'
    assert (code, told(out)) == (1, [{"error": {"code": "bad_request", "message": said}}])
    assert err == f"craze-shed {command.split()[0]}: {said}\n"


def test_a_machine_behind_paramiko_wants_a_patched_program_before_anything_is_done(home):
    for word in ("paramiko:h", "box"):
        (home / ".config/craze-shed").mkdir(parents=True, exist_ok=True)
        (home / ".config/craze-shed/machines.toml").write_text('[machines]\nbox="paramiko:h"\n')
        with pytest.raises(reaching.NeedsPatching):
            from craze_shed.cli import app

            app.main(["sessions", "-m", word])
    with pytest.raises(reaching.NeedsPatching):
        app.main(["machines"])


# ---- sessions ----


def test_sessions(run, source):
    source.stream = listed(
        session(provider="grok", doing="Reading"),
        session(OTHER, activity="needs_approval", pending_approvals=2),
    )
    assert run("sessions") == (
        0,
        "0123456789ab  idle            0 waiting  grok     /w  Reading\n"
        "0123cdef0000  needs_approval  2 waiting  -        /w  a title\n",
        "",
    )
    code, out, err = run("sessions", "--json")
    assert (code, err) == (0, "")
    assert told(out) == [row.session.to_wire() for row in source.stream[1:3]]


def test_no_sessions(run, source):
    source.stream = listed()
    assert run("sessions") == (0, "no sessions running\n", "")
    assert run("sessions", "--json") == (0, "", "")


def test_a_cut_list_says_so(run, source):
    source.stream = listed(session(), truncated=True)
    code, out, err = run("sessions")
    assert (code, out.count("\n"), err) == (0, 1, "… (truncated at craze's 512 rows)\n")


@pytest.mark.parametrize("cause,code", [
    ("unreachable", "unavailable"), ("too_old", "too_old"), ("not_installed", "not_installed"),
    ("no_hub", "unavailable"),
])  # fmt: skip
def test_a_machine_that_lists_nothing_is_a_failure_that_says_why(run, source, cause, code):
    source.stream = [frames.SourceOffline(BAD, cause)]
    exit_code, out, err = run("sessions", "--json")
    assert exit_code == 1
    advice = "; options, new, saved and resume start one" if cause == "no_hub" else ""
    assert err == f"craze-shed sessions: craze is offline ({cause}): {PLAIN}{advice}\n"
    assert told(out)[0]["error"]["code"] == code


def test_watched_sessions_go_on_through_an_outage(run, source):
    source.stream = [
        *listed(session()),
        frames.SourceRemoved(ID),
        frames.SourceOffline("gone", "unreachable"),
        frames.SourceUnknown(),
        *listed(),
    ]
    source.ends = True
    code, out, err = run("sessions", "--watch")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "--- reset (connect) generation 1",
        "0123456789ab  idle            0 waiting  -        /w  a title",
        "+++ create=true create_options=true",
        "--- ready",
        "0123456789ab  (gone)",
        "--- offline (unreachable): gone",
        "--- reset (connect) generation 1",
        "+++ create=true create_options=true",
        "--- ready",
    ]
    kinds = [one["kind"] for one in told(run("sessions", "--watch", "--json")[1])]
    assert kinds == ["reset", "session", "capabilities", "ready", "removed", "offline", "reset",
                     "capabilities", "ready"]  # fmt: skip


# ---- options, new ----


def test_options(run, source):
    source.answers["options"] = LaneCreateOptions((LaneProvider("grok", "G", "ready"),), "grok")
    assert run("options") == (0, "grok     ready\ndefault: grok\n", "")
    assert told(run("options", "--json")[1]) == [source.answers["options"].to_wire()]


def created(source, prompt="accepted", **members):
    source.answers["create"] = LaneCreated(session(**members), prompt)
    return source.answers["create"]


def test_new(run, source):
    made = created(source)
    line = ("new", "-m", "ssh:x", "-C", " /w ", "--provider", "grok", "--title", " T ", "fix", "it")
    assert run(*line) == (0, f"{ID}  /w  prompt accepted\n", "")
    [(_, request)] = source.asked
    assert request.request_id.startswith("shed-")
    assert request == LaneCreateRequest("/w", "grok", "fix it", request.request_id, "T")
    assert told(run(*line, "--json")[1]) == [made.to_wire()]
    assert source.asked[1][1].request_id != request.request_id


def test_new_here_needs_no_directory_and_blanks_are_nothing(run, source, monkeypatch, tmp_path):
    created(source, "none")
    monkeypatch.chdir(tmp_path)
    assert run("new", "--title", " ", "--provider", "", " ")[0] == 0
    assert run("new", "-C", "sub/../x")[0] == 0
    here, there = (request for _, request in source.asked)
    assert here == LaneCreateRequest(os.getcwd(), request_id=here.request_id)
    assert there.cwd == str(Path.cwd() / "x")


@pytest.mark.parametrize("given", ["", "~/x", "x"])
def test_new_elsewhere_wants_an_absolute_path(run, source, given):
    code, out, err = run("new", "-m", "ssh:x", "--dir", given)
    assert (code, out, source.asked) == (1, "", [])
    assert err == (
        f'craze-shed new: the session\'s directory must be an absolute path, got "{given}"; give it'
        " with --dir\n"
    )


def test_a_session_that_refused_its_prompt_runs_and_is_a_failure(run, source):
    source.answers["create"] = LaneCreated(session(), "refused", BAD)
    code, out, err = run("new")
    assert (code, out) == (1, f"{ID}  /w  prompt refused: {PLAIN}\n")
    assert err == (f"craze-shed new: the session runs and refused its first prompt: {PLAIN}\n")


def test_b10_an_unknown_outcome_is_no_failure_and_is_asked_again_under_its_id(run, source):
    source.answers["create"] = errors.outcome_unknown("craze did not answer the create, twice")
    code, out, err = run("new", "--json", "go")
    [(_, first)] = source.asked
    assert code == 4
    said = "outcome unknown: craze did not answer the create, twice"
    assert err == f"craze-shed new: {said} (request id {first.request_id})\n"
    assert told(out) == [
        {"error": {"code": "outcome_unknown", "message": said, "request_id": first.request_id}}
    ]
    created(source)
    assert run("new", "--request-id", first.request_id, "go")[0] == 0
    assert source.asked[1][1] == first


def test_a_definite_refusal_tells_no_request_id(run, source):
    source.answers["create"] = errors.failed("the session failed to start")
    assert run("new") == (1, "", "craze-shed new: the session failed to start\n")


def test_new_interrupted_says_how_to_ask_again(run, source):
    source.hang = interrupt
    code, out, err = run("new")
    [(_, request)] = source.asked
    assert (code, out) == (130, "")
    assert err == (
        "craze-shed new: interrupted; the session may start all the same: see craze-shed sessions,"
        f" or ask again with --request-id={request.request_id}\n"
    )


# ---- saved, resume ----


def test_saved(run, source, home, monkeypatch):
    monkeypatch.setattr(machines.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    known = LaneSavedList(
        (
            LaneSavedSession("s-1", None, "grok", "p-1", f"{home}/a", "A [title]", "",
                             "2023-11-14T20:00:00Z"),
            LaneSavedSession(BAD, None, BAD, "p-2", BAD, None, "", "odd"),
        ),
        True,
    )  # fmt: skip
    source.answers["saved"] = known
    code, out, err = run("saved")
    assert (code, err) == (0, "Showing the 50 most recent.\n")
    lines = [line.split("  ") for line in out.splitlines()]
    assert [cell.strip() for cell in lines[0] if cell.strip()] == [
        "ID", "PROVIDER", "DIR", "ACTIVE", "TITLE",
    ]  # fmt: skip
    assert [cell.strip() for cell in lines[1] if cell.strip()] == [
        "s-1", "grok", "~/a", "2h ago", "A [title]",
    ]  # fmt: skip
    assert [cell.strip() for cell in lines[2] if cell.strip()] == [PLAIN] * 3 + ["-", "Untitled"]
    assert f"{home}/a" in run("saved", "-m", "ssh:x")[1]
    assert told(run("saved", "--json")[1]) == [known.to_wire()]
    source.answers["saved"] = LaneSavedList()
    assert run("saved") == (0, "no saved sessions\n", "")


def test_resume(run, source):
    made = LaneReopened(session(), False)
    source.answers["reopen"] = made
    assert run("resume", "s-1") == (0, f"{ID}  /w  resumed\n", "")
    assert source.asked == [("reopen", "s-1")]
    assert told(run("resume", "s-1", "--json")[1]) == [made.to_wire()]
    source.answers["reopen"] = unknown()
    code, out, err = run("resume", "s-1")
    assert (code, out) == (4, "") and err.startswith("craze-shed resume: outcome unknown: ")
