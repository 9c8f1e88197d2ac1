"""What can be created here: providers with their states, the default one, recent directories."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from craze.hub import options
from craze.machine import config
from craze.machine.index import Row
from craze.machine.paths import Paths
from craze.wire import schema
from craze.wire.cells import width
from craze.wire.codes import REFUSED, Refusal
from craze.wire.plain import plain_line

NATIVE = {
    "id": "native",
    "label": "native",
    "state": "needs_setup",
    "reason": "no model provider has a key",
    "fix": 'craze auth login (an API key, or "craze auth login chatgpt" for a ChatGPT plan)',
}


class Machine:
    """A user's machine: `home` with its craze directory, `bin` the PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.craze = root / "craze"
        for folder in (self.bin, self.craze):
            folder.mkdir()
        self.environ = {
            "HOME": str(root),
            "CRAZE_HOME": str(self.craze),
            "PATH": str(self.bin),
        }
        self.said: list[str] = []

    def program(self, name: str) -> str:
        path = self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    def configure(self, text: str) -> None:
        (self.craze / "config.toml").write_text(text)

    def save(self, *rows: Row) -> None:
        (self.craze / "sessions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def raw(self, **more: Any) -> bytes:
        made = Paths.of(self.environ)
        return options.create_options(made, self.environ, pid=5150, report=self.said.append, **more)

    def answer(self, **more: Any) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.raw(**more))
        schema.check_result("sessions.createOptions", result)
        for provider in result["providers"]:
            for text in (provider["label"], provider.get("reason", ""), provider.get("fix", "")):
                assert text == plain_line(text) and width(text) <= 200
        return result

    def states(self) -> dict[str, str]:
        return {provider["id"]: provider["state"] for provider in self.answer()["providers"]}

    def provider(self, name: str, **more: Any) -> dict[str, Any]:
        [found] = [one for one in self.answer(**more)["providers"] if one["id"] == name]
        return found

    def dirs(self) -> list[tuple[str, str]]:
        return [(recent["dir"], recent["usedAt"]) for recent in self.answer()["recentDirs"]]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def row(session: str, cwd: str, at: str = "2026-10-03T12:00:00Z") -> Row:
    return {"provider": "grok", "sessionId": session, "cwd": cwd, "updatedAt": at}


# ---- the answer ----


def test_the_recorded_answer_to_the_byte(machine: Machine) -> None:
    agent = machine.root / "craze-fake-agent"
    agent.write_text("")
    machine.configure(f'provider = "grok"\nhost_idle_exit = "30s"\n\n[agents]\ngrok = "{agent}"\n')
    assert machine.raw().decode() == (
        '{"providers":[{"id":"cursor","label":"cursor","state":"unavailable",'
        '"reason":"cursor-agent not found on PATH",'
        '"fix":"install cursor-agent, or set [agents].cursor in <CRAZE_HOME>/config.toml"},'
        '{"id":"grok","label":"grok","state":"ready"},'
        '{"id":"native","label":"native","state":"needs_setup",'
        '"reason":"no model provider has a key","fix":"craze auth login (an API key, or '
        '\\"craze auth login chatgpt\\" for a ChatGPT plan)"}],'
        '"defaultProvider":"grok","recentDirs":[]}'
    ).replace("<CRAZE_HOME>", str(machine.craze))
    assert machine.said == []


def test_nothing_is_cached(machine: Machine) -> None:
    before = machine.answer()
    assert (before["recentDirs"], "defaultProvider" in before) == ([], False)
    machine.program("agent")
    machine.configure('provider = "native"')
    machine.save(row("p", str(machine.root)))
    after = machine.answer()
    assert after["providers"][0] == {"id": "cursor", "label": "cursor", "state": "ready"}
    assert after["defaultProvider"] == "native"
    assert len(after["recentDirs"]) == 1


# ---- providers ----


def test_every_provider_and_their_order(machine: Machine) -> None:
    for name in ("gx", "grok", "cursor-agent", "goose"):
        machine.program(name)
    machine.configure(
        '[providers.zed]\ncommand = ["zed"]\n[providers.goose]\ncommand = ["goose", "acp"]\n'
        'label = "Goose [AI]"\n'
    )
    assert machine.answer()["providers"] == [
        {"id": "cursor", "label": "cursor", "state": "ready"},
        {"id": "grok", "label": "grok", "state": "ready"},
        {"id": "gx", "label": "gx", "state": "ready"},
        NATIVE,
        {
            "id": "zed", "label": "zed", "state": "unavailable",
            "reason": "zed not found on PATH",
            "fix": f"install zed, or set [providers.zed].command in {machine.craze}/config.toml",
        },
        {"id": "goose", "label": "Goose [AI]", "state": "ready"},
    ]  # fmt: skip


def test_gx_is_listed_only_where_it_is_found(machine: Machine) -> None:
    assert list(machine.states()) == ["cursor", "grok", "native"]
    machine.configure('provider = "gx"\n[agents]\ngx = "/no/gx"\n')
    assert list(machine.states()) == ["cursor", "grok", "native"]
    assert machine.answer()["defaultProvider"] == "gx"
    machine.configure(f'[agents]\ngx = "{machine.program("my-gx")}"\n')
    assert machine.states()["gx"] == "ready"


def test_a_configured_program_that_is_gone_is_not_passed_over(machine: Machine) -> None:
    machine.program("cursor-agent")
    machine.configure('[agents]\ncursor = "/opt/x/cursor-agent"\n')
    assert machine.provider("cursor") == {
        "id": "cursor",
        "label": "cursor",
        "state": "unavailable",
        "reason": "[agents].cursor /opt/x/cursor-agent not found",
        "fix": f"point [agents].cursor at an existing binary in {machine.craze}/config.toml",
    }


def test_a_hub_hands_no_launchs_program_on(machine: Machine) -> None:
    machine.environ |= {"CRAZE_AGENT_BIN": machine.program("x"), "CRAZE_PROVIDER": "grok"}
    assert machine.states()["grok"] == "unavailable"


def test_outside_the_login_session_of_a_mac(machine: Machine) -> None:
    missing = machine.provider("cursor", outside_login=True)
    assert missing["reason"] == "cursor-agent not found on PATH"
    machine.program("cursor-agent")
    machine.program("grok")
    assert machine.provider("cursor", outside_login=True) == {
        "id": "cursor",
        "label": "cursor",
        "state": "unavailable",
        "reason": "this craze runs outside the macOS login session (over ssh), where cursor may"
        " not reach the login keychain",
        "fix": 'kill 5150 (no session ends), then run "craze ps" in a terminal on the Mac',
    }
    assert machine.provider("grok", outside_login=True)["state"] == "ready"
    assert machine.provider("cursor")["state"] == "ready"


def test_at_most_sixteen(machine: Machine) -> None:
    machine.configure("".join(f'[providers.p{n}]\ncommand = ["x"]\n' for n in range(20)))
    assert list(machine.states()) == ["cursor", "grok", "native", *(f"p{n}" for n in range(13))]


def test_b71_words_from_a_configuration_are_harmless_and_bounded(machine: Machine) -> None:
    machine.configure(
        '[agents]\ngrok = "/x\\u001b]52;c;eA==\\u0007/\\u009b2J\\u202e\\nn\\tm/grok"\n'
        f'cursor = "/{"w" * 300}"\n[providers.p]\ncommand = ["\\u001b[2Jx"]\n'
        'label = "\\u001b[2J\\u202e"\n[providers.q]\ncommand = ["x"]\nlabel = "漢 \\u001b[1mQ\\n"\n'
    )
    assert machine.provider("grok")["reason"] == "[agents].grok /x/ n m/grok not found"
    long = machine.provider("cursor")["reason"]
    assert len(long) == 200 and long.startswith("[agents].cursor /www") and long.endswith("w…")
    assert machine.provider("p")["label"] == "p"
    assert machine.provider("p")["reason"] == "x not found on PATH"
    assert machine.provider("q")["label"] == "漢 Q"


# ---- the default ----


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("", None),
        ('provider = ""', None),
        ('provider = " grok "', "grok"),
        ('provider = "gone"', None),
        ("provider = 5", None),
        ("provider = ", None),  # a file that does not parse
        ('provider = "p"\n[providers.p]\ncommand = ["x"]', "p"),
    ],
)
def test_the_default_provider(machine: Machine, text: str, default: str | None) -> None:
    machine.configure(text)
    machine.environ["CRAZE_PROVIDER"] = "cursor"  # a launch's, never a hub's
    assert machine.answer().get("defaultProvider") == default


@pytest.mark.parametrize(
    ("text", "named", "outcome"),
    [
        ("", "native", "native"),
        ("", "gx", "gx"),
        ('provider = "grok"', "", "grok"),
        ('provider = "grok"', "cursor", "cursor"),
        ('[providers.p]\ncommand = ["x"]', "p", "p"),
        (
            "", "",
            "params.provider is required: this hub has no default provider"
            " (config.toml's provider)",
        ),
        ('provider = "grok"', "x", 'params.provider "x" is not a provider this craze can start'),
        (
            'provider = "x"', "",
            'the default provider "x" (config.toml\'s provider) is not one this craze can start',
        ),
    ],
)  # fmt: skip
def test_the_provider_of_a_create(machine: Machine, text: str, named: str, outcome: str) -> None:
    machine.configure(text)
    settings = config.load(Paths.of(machine.environ), {})
    try:
        assert options.provider_for(named, settings) == outcome
    except Refusal as refusal:
        error = (refusal.rpc, refusal.code, refusal.reason, refusal.message)
        assert error == (REFUSED, "bad_request", "bad_request", outcome)


# ---- recent directories ----


def test_each_directory_once_newest_first_cleaned_and_in_utc(machine: Machine) -> None:
    one, two = machine.root / "one", machine.root / "two"
    one.mkdir()
    two.mkdir()
    machine.save(
        row("a", f"{two}", "2026-10-02T09:30:00Z"),
        row("b", f"{one}/../one//", "2026-10-03T14:00:00.500+02:00"),
        row("c", f"{one}", "2026-10-03T11:59:59Z"),
        row("d", f"/{two}/.", "2026-10-02T09:29:00Z"),
    )
    assert machine.dirs() == [
        (str(one), "2026-10-03T12:00:00.5Z"),
        (str(two), "2026-10-02T09:30:00Z"),
    ]


def test_only_what_is_a_directory_now_is_listed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.root / "here").mkdir()
    monkeypatch.chdir(machine.root)
    (machine.root / "a\x1b[2Jb").mkdir()
    (machine.root / "a\nb").mkdir()
    (machine.root / "a\u202eb").mkdir()
    os.mkdir(os.fsencode(machine.root) + b"/\xff")
    bad = ["here", "~", "/no/such", machine.program("file"), "/\0", "/\ud800", "", " "]
    bad += [f"{machine.root}/{name}" for name in ("a\x1b[2Jb", "a\nb", "a\u202eb", "\udcff")]
    rows = [row(f"p-{n}", cwd) for n, cwd in enumerate(bad) if cwd]
    good = f"{machine.root}/here"
    later = "9999-12-31T23:59:59-01:00"  # another year in UTC
    machine.save(*rows, row("old", good, "2020-01-01T00:00:00Z"), row("new", good, later))
    assert machine.dirs() == [(good, "2020-01-01T00:00:00Z")]
    assert machine.said == []


def test_at_most_twenty_directories(machine: Machine) -> None:
    folders = [machine.root / f"d{n:02}" for n in range(30)]
    for folder in folders:
        folder.mkdir()
    machine.save(
        *(row(f"p-{n}", str(d), f"2026-01-01T00:00:{n:02}Z") for n, d in enumerate(folders))
    )
    assert [name for name, _ in machine.dirs()] == [str(folders[n]) for n in range(29, 9, -1)]


def test_an_index_that_cannot_be_read_is_none_and_one_line(machine: Machine) -> None:
    machine.save(row("p", str(machine.root)))
    with open(machine.craze / "sessions.jsonl", "a") as file:
        file.write("[]\n")
    assert machine.answer()["recentDirs"] == []
    path = machine.craze / "sessions.jsonl"
    assert machine.said == [f"the session index cannot be read: {path}:2: not a JSON object"]


def test_b73_an_index_cut_in_its_last_line_still_counts(machine: Machine) -> None:
    machine.save(row("p", str(machine.root)))
    with open(machine.craze / "sessions.jsonl", "a") as file:
        file.write('{"provider":"gr')
    assert [name for name, _ in machine.dirs()] == [str(machine.root)]
    assert machine.said == []
