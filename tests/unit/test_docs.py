"""The pages are held to the code: what they list is what there is, and their programs run."""

import contextlib
import io
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from craze import client as client_names
from craze.bridge import command as bridge
from craze.cli import serve
from craze.eventlog import cursors
from craze.events.members import TYPES
from craze.fakes import host as fake_host
from craze.fakes.agent_scripts import SCRIPTS
from craze.machine import config
from craze.wire import limits, schema
from craze.wire.codes import CLIENT_REASONS, REASONS, RETRYABLE
from craze.wire.limits import KIB, MIB
from craze.wire.methods import METHODS, Method
from craze_shed import config as machines
from craze_shed.cli import app as shed
from craze_shed.cli import output
from craze_shed.contract.errors import VARIANTS
from craze_shed.contract.frames import FINAL, LANE_FRAMES, SOURCE_FRAMES
from tests.bench.__main__ import NAMES as BENCHMARKS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
EXAMPLE_SOCKET = "/run/user/1000/craze/0123456789ab.sock"
UNITS = {"": 1, "KiB": KIB, "MiB": MIB, "s": 1, "ms": 1}


def page(name: str) -> str:
    return (ROOT / name).read_text()


def section(text: str, heading: str) -> str:
    """What stands under a heading, down to the next of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    body = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"\n#{{1,{level}}} ", body, maxsplit=1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every table's rows in a text, but for the headings."""
    found = []
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        for line in table.splitlines()[2:]:
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def coded(text: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", text)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def source(*folders: str) -> str:
    return "\n".join(
        path.read_text() for folder in folders for path in (ROOT / "craze" / folder).rglob("*.py")
    )


# ---- every page ----


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_files_a_page_names_exist(path: Path) -> None:
    for name in coded(path.read_text()):
        if re.fullmatch(r"(craze|tests|examples)/[a-z_./]+", name):
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_configuration_that_a_page_shows_is_one(path: Path) -> None:
    for shown in blocks(path.read_text(), "toml"):
        for name, given in tomllib.loads(shown).get("providers", {}).items():
            assert config._wrong(name, given) == ""


# ---- serving.md ----


_PROCESSES = ("machine", "cli", "host", "hub", "agents")


def test_serving_has_every_flag() -> None:
    text = page("docs/serving.md")
    for flag in (*serve.FLAGS, *bridge.FLAGS):
        assert f"--{flag.name}" in text, flag.name


def test_serving_has_every_variable() -> None:
    there = set(re.findall(r"\"(CRAZE_[A-Z_]+)\"", source(*_PROCESSES)))
    listed = section(page("docs/serving.md"), "## Environment")
    assert there <= set(coded(listed))
    assert {name for name in coded(listed) if name.startswith("CRAZE_")} <= there


def test_serving_has_every_key() -> None:
    listed = set(coded(section(page("docs/serving.md"), "## config.toml")))
    no_keys = {"path", "warnings", "fault", "idle_exit", "agents", "providers"}
    keys = set(config.Config._fields) - no_keys
    assert keys | {"host_idle_exit", "[agents]", "[providers.NAME]"} <= listed


def test_serving_has_every_provider() -> None:
    listed = section(page("docs/serving.md"), "## Agents")
    assert [row[0].strip("`") for row in rows(listed)][:-1] == list(config.BUILT_IN)


# ---- wire.md ----


def params(method: Method) -> list[str]:
    return [member.name + ("" if member.required else "?") for member in method.params]


def test_wire_has_the_methods_of_the_table() -> None:
    listed = section(page("docs/wire.md"), "## Methods")
    served, refused = {}, {}
    for row in rows(listed):
        name = row[0].strip("`")
        if len(row) == 4:
            served[name] = (coded(row[1]), row[2] == "command")
        else:
            refused[name] = row[1].strip("`")
    assert served == {m.name: (params(m), m.mutating) for m in METHODS.values() if m.host}
    assert refused == {m.name: m.refused_by_host for m in METHODS.values() if not m.host}


def test_wire_has_the_codes_and_reasons_of_the_table() -> None:
    listed = section(page("docs/wire.md"), "## Codes and reasons")
    reasons = {
        reason: row[0].strip("`")
        for row in rows(listed)
        for reason in coded(row[1])
    }  # fmt: skip
    assert reasons == REASONS
    assert {row[0].strip("`") for row in rows(listed) if row[2]} == RETRYABLE
    assert set(coded(listed)) >= CLIENT_REASONS


def test_what_wire_says_is_never_sent_is_not_in_the_code() -> None:
    """But as a name that an event or the hub's side of a table has."""
    named_otherwise = {"host_only", "prompt_in_flight", "prompt_cancelled"}
    text = source("wire", "engine", "agents", "host").replace(
        (ROOT / "craze/wire/codes.py").read_text(), ""
    )
    for reason in re.findall(r"`([a-z_]+)`†", page("docs/wire.md")):
        assert reason in named_otherwise or f'"{reason}"' not in text, reason


def test_wire_has_the_resets() -> None:
    listed = section(page("docs/wire.md"), "## Attaching")
    said = {reason for row in rows(listed) for reason in coded(row[0])}
    of_a_host = set(schema.documents()["notify.reset"]["properties"]["reason"]["enum"])
    assert said == {*cursors.REASONS, *of_a_host} - {"hub_closing"}


def test_wire_has_the_limits_as_they_are() -> None:
    for name, _, value in rows(section(page("docs/wire.md"), "## Limits")):
        number, _, unit = value.partition(" ")
        assert float(number) * UNITS[unit] == getattr(limits, name.strip("`")), name


def test_wire_has_the_event_types() -> None:
    listed = section(page("docs/wire.md"), "## Events").partition(".")[0]
    assert tuple(coded(listed)) == TYPES


# ---- fakes.md ----


def test_fakes_has_every_flag_and_op_of_the_host() -> None:
    text = page("docs/fakes.md")
    host = section(text, "## craze-fake-host")
    flags = {flag for row in rows(host) for flag in re.findall(r"^`(--[a-z-]+)", row[0])}
    assert flags == set(re.findall(r"^  (--[a-z-]+)", fake_host.USAGE, re.MULTILINE))
    ops = [row[0].strip("`") for row in rows(section(text, "### Ops"))]
    assert sorted(ops) == sorted(fake_host.FakeHost.ops)


def test_fakes_has_every_member_of_the_host_object() -> None:
    listed = section(page("docs/fakes.md"), "### The host object")
    members = {name for row in rows(listed) for name in coded(row[0])}
    code = (ROOT / "craze/fakes/host.py").read_text() + (ROOT / "craze/fakes/stub.py").read_text()
    read = set(re.findall(r"host(?:\.get\(|\[)\"([A-Za-z]+)\"", code))
    assert members == read | {"stop", "rowFacts", "presence"}


def test_fakes_has_every_script_once() -> None:
    listed = section(page("docs/fakes.md"), "### Scripts")
    scripts = [name for row in rows(listed) for name in coded(row[0])]
    assert sorted(scripts) == sorted(SCRIPTS)


def test_fakes_has_every_variable_of_the_agent() -> None:
    listed = section(page("docs/fakes.md"), "### Variables")
    variables = {name for row in rows(listed) for name in coded(row[0])}
    assert variables == set(re.findall(r"CRAZE_FAKE_[A-Z_]+", source("fakes")))


# ---- lanes.md ----


def test_lanes_has_every_command_of_craze_shed() -> None:
    listed = rows(section(page("docs/lanes.md"), "## craze-shed"))
    named = [row[0].strip("`") for row in listed if "craze-shed" in row[0]]
    assert named == [f"craze-shed {name}" for name in shed.COMMANDS]


def test_lanes_has_every_exit_code() -> None:
    listed = rows(section(page("docs/lanes.md"), "## craze-shed"))
    codes = {0, output.FAILURE, output.USAGE, output.OUTCOME_UNKNOWN, output.INTERRUPTED}
    assert {int(row[0]) for row in listed if row[0].isdigit()} == codes


def test_lanes_has_every_frame_and_every_failure() -> None:
    text = page("docs/lanes.md")
    of_sources = coded(section(text, "## Sources"))
    assert {one.__name__ for one in SOURCE_FRAMES.values()} <= set(of_sources)
    of_lanes = coded(section(text, "## What comes over a lane"))
    assert {one.__name__ for one in LANE_FRAMES.values()} <= set(of_lanes)
    assert set(FINAL) - {"start_failed"} <= set(of_lanes)
    # No adapter for craze gives the one that is left out.
    failures = coded(section(text, "## What a verb ends in"))
    assert set(VARIANTS) - {"unauthorized"} <= set(failures)


def test_lanes_shows_machines_as_they_are_configured(tmp_path: Path) -> None:
    [shown] = blocks(page("docs/lanes.md"), "toml")
    where = tmp_path / "machines.toml"
    where.write_text(shown)
    assert machines.named("build", {machines.VARIABLE: str(where)}).way == machines.SSH


# ---- development.md ----


def test_development_has_every_package_and_benchmark() -> None:
    text = page("docs/development.md")
    for path in (ROOT / "craze").iterdir():
        if (path / "__init__.py").exists():
            assert f"`craze/{path.name}`" in text, path.name
    bench = [row[0].strip("`") for row in rows(section(text, "### Benchmarks"))]
    assert bench == list(BENCHMARKS)


# ---- the programs ----


@pytest.fixture
def served() -> Iterator[str]:
    """The socket of a fake host."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = f"{folder}/host.sock"
        process = subprocess.Popen(
            [sys.executable, "-m", "craze.fakes.host", f"--socket={path}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline()
            yield path
        finally:
            process.stdin.close()
            process.wait(20)
            process.stdout.close()


def printed(program: str, path: str) -> list[str]:
    """What a program prints, run against the host at `path`."""
    program = program.replace(EXAMPLE_SOCKET, path)
    said = io.StringIO()
    with gevent.Timeout(20, AssertionError("it hung")), contextlib.redirect_stdout(said):
        exec(compile(program, "the page", "exec"), {})
    return said.getvalue().splitlines()


PROGRAMS = blocks(page("docs/client.md"), "python")


def test_a_prompt_and_its_events(served: str) -> None:
    said = printed(PROGRAMS[0], served)
    assert [line.split()[1] for line in said] == ["turn", "text", "done", "turn"]


def test_calls(served: str) -> None:
    assert printed(PROGRAMS[1], served) == ["session-fake-1 idle"]


def test_outcomes(served: str) -> None:
    assert printed(PROGRAMS[2], served) == ["nothing to cancel"]


def test_going_on_elsewhere(served: str) -> None:
    assert printed(PROGRAMS[3], served) == ["c-1 True None"]


def test_there_is_no_other_program() -> None:
    assert len(PROGRAMS) == 4
    assert len(blocks(page("README.md"), "python")) == 1


def test_the_program_of_the_readme(served: str) -> None:
    [program] = blocks(page("README.md"), "python")
    dialled = program.replace("lambda: Program(bridge)", repr(served))
    assert dialled != program
    said = printed(dialled, served)
    assert "'echo: Say hello.'" in said[1]
    assert "'phase': 'ended'" in said[-1]


def test_the_program_in_the_package_itself(served: str) -> None:
    doc = client_names.__doc__ or ""
    program = "\n".join(line[4:] for line in doc.splitlines() if line.startswith("    "))
    said = printed(program.replace("/path/of/the/session.sock", served), served)
    assert "'echo: hello'" in said[1]


def test_client_has_every_name() -> None:
    assert set(coded(section(page("docs/client.md"), "## Names"))) == set(client_names.__all__)
