import os
import stat
from pathlib import Path

import pytest

from craze.machine import config, locks
from craze.machine.config import Config, Provider, Switch
from craze.machine.errors import MachineError
from craze.machine.paths import Paths, lock_beside


@pytest.fixture
def file(paths: Paths) -> Path:
    os.makedirs(paths.craze)
    return Path(paths.config)


def load(paths: Paths, text: str | None = None, **environ: str) -> Config:
    if text is not None:
        Path(paths.config).write_text(text)
    return config.load(paths, environ)


def test_no_file_is_an_empty_one(paths: Paths, file: Path) -> None:
    for settings in (load(paths), load(paths, "")):
        assert settings == Config(
            path=str(file), provider="", idle_exit=3600, detach=Switch(True),
            control_socket=Switch(True), journal=Switch(True), terminal_title=True,
            background=True, host_status=True, theme="", agents={}, providers={}, warnings=(),
        )  # fmt: skip


def test_a_full_file(paths: Paths, file: Path) -> None:
    settings = load(
        paths,
        """
        provider = " grok "
        host_idle_exit = "30s"
        journal = false
        terminal_title = false
        theme = "dark"
        newer = { any = 1 }
        [agents]
        grok = "/opt/grok"
        cursor = ""
        other = 1
        [providers.codex]
        command = ["npx", "codex-acp"]
        label = "Codex"
        env = { A = "b" }
        [providers.plain]
        command = ["plain"]
        """,
    )
    assert (settings.provider, settings.idle_exit, settings.theme) == ("grok", 30, "dark")
    assert settings.journal == Switch(False, f"journal = false in {file}")
    assert not settings.terminal_title and settings.background
    assert settings.agents == {"grok": "/opt/grok"}
    assert settings.providers == {
        "codex": Provider("codex", ("npx", "codex-acp"), "Codex", {"A": "b"}),
        "plain": Provider("plain", ("plain",), "plain", {}),
    }
    assert settings.known_providers == ("cursor", "grok", "gx", "native", "codex", "plain")
    assert settings.warnings == ()


# ---- switches that fail closed ----

NAMES = {"detach": "detached sessions", "control_socket": "control socket", "journal": "journal"}


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize(
    ("value", "given", "why"),
    [
        (None, "", None),
        ("true", "1", None),
        ("true", " ON ", None),
        ("false", "", "{key} = false in {file}"),
        ("false", "1", "{key} = false in {file}"),
        ("true", "0", "{variable}=0"),
        (None, "Off", "{variable}=off"),
        ('"true"', "", "!{key} in {file} is neither true nor false"),
        ("1", "", "!{key} in {file} is neither true nor false"),
        (None, "maybe", '!{variable}="maybe" is neither true nor false'),
    ],
)
def test_a_switch_is_on_only_by_a_literal_true(
    paths: Paths, file: Path, key: str, value: str | None, given: str, why: str | None
) -> None:
    variable = f"CRAZE_{key.upper()}"
    settings = load(paths, f"{key} = {value}" if value else "", **{variable: given})
    switch = getattr(settings, key)
    if why is None:
        assert switch == Switch(True) and settings.warnings == ()
        return
    said, why = why.startswith("!"), why.removeprefix("!")
    why = why.format(key=key, file=file, variable=variable)
    assert switch == Switch(False, why)
    assert settings.warnings == ((f"craze: {NAMES[key]} off: {why}",) if said else ())


def test_no_control_socket_means_no_detaching(paths: Paths, file: Path) -> None:
    settings = load(paths, "control_socket = false")
    assert settings.detach == settings.control_socket
    assert settings.journal.on


@pytest.mark.parametrize("text", ["provider = ", "\udcff", "a = 1\na = 2", "[" * 5000])
def test_a_file_that_does_not_parse_turns_the_switches_off(
    paths: Paths, file: Path, text: str
) -> None:
    file.write_bytes(os.fsencode(text))
    settings = load(paths)
    assert not (settings.detach.on or settings.control_socket.on or settings.journal.on)
    assert settings.terminal_title and settings.background and settings.host_status
    assert len(settings.warnings) == 3
    assert settings.warnings[1].startswith(f"craze: control socket off: {file}: ")


def test_a_file_that_cannot_be_read_turns_the_switches_off(paths: Paths, file: Path) -> None:
    file.mkdir()
    settings = load(paths)
    assert settings.control_socket == Switch(False, f"{file}: is a directory")


# ---- the rest ----


@pytest.mark.parametrize(
    ("value", "seconds"),
    [('"0"', 0), ('"never"', None), ('"NEVER"', None), ('" 90m "', 5400), ('"1h30m"', 5400)],
)
def test_the_idle_exit(paths: Paths, file: Path, value: str, seconds: float | None) -> None:
    settings = load(paths, f"host_idle_exit = {value}")
    assert (settings.idle_exit, settings.warnings) == (seconds, ())


@pytest.mark.parametrize(
    ("value", "shown"),
    [('"-1m"', '"-1m"'), ('"soon"', '"soon"'), ('""', '""'), ("5", "its value")],
)
def test_a_bad_idle_exit_is_the_default(paths: Paths, file: Path, value: str, shown: str) -> None:
    settings = load(paths, f"host_idle_exit = {value}")
    assert settings.idle_exit == 3600
    line = f'craze: config.toml: host_idle_exit: {shown} is no duration, using "1h"'
    assert settings.warnings == (line,)


@pytest.mark.parametrize("value", ['"grok"', '"~/grok"', "1", "true"])
def test_an_agent_that_is_no_absolute_path_is_ignored(paths: Paths, file: Path, value: str) -> None:
    settings = load(paths, f"[agents]\ngrok = {value}")
    assert settings.agents == {}
    line = "craze: config.toml: [agents].grok is not an absolute path, ignored"
    assert settings.warnings == (line,)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[providers.grok]\ncommand=['x']", "[providers.grok] is built in"),
        ("[providers.'a:b']\ncommand=['x']", '[providers."a:b"] has a name that is not'),
        ("[providers.'\\u001b']\ncommand=['x']", "has a name that is not"),
        ("[providers.x]", "[providers.x] needs command = ["),
        ("[providers.x]\ncommand='x'", "[providers.x] needs command = ["),
        ("[providers.x]\ncommand=[]", "[providers.x] needs command = ["),
        ("[providers.x]\ncommand=['x', 1]", "[providers.x] needs command = ["),
        ("[providers.x]\ncommand=['x']\nlabel=1", "[providers.x] has a label"),
        ("[providers.x]\ncommand=['x']\nenv={a=1}", "[providers.x] has an env"),
        ("[providers]\nx=1", "[providers.x] is not a table"),
        ("providers=1", "providers is not a table"),
        ("agents=[]", "agents is not a table"),
        ("provider=1", "provider is not a string"),
    ],
)
def test_a_mistake_elsewhere_is_said_and_ignored(
    paths: Paths, file: Path, text: str, wrong: str
) -> None:
    settings = load(paths, text)
    assert (settings.providers, settings.agents, settings.provider) == ({}, {}, "")
    assert len(settings.warnings) == 1
    assert settings.warnings[0].startswith("craze: config.toml: ")
    assert wrong in settings.warnings[0] and settings.warnings[0].endswith(", ignored")


# ---- the provider of a launch ----


@pytest.mark.parametrize(
    ("flag", "variable", "text", "chosen"),
    [
        ("", "", "", "cursor"),
        ("", "", "provider = 'grok'", "grok"),
        ("", "gx", "provider = 'grok'", "gx"),
        ("native", "gx", "provider = 'grok'", "native"),
        ("", " ", "provider = ' '", "cursor"),
        ("mine", "", "[providers.mine]\ncommand = ['x']", "mine"),
    ],
)
def test_the_nearest_provider_counts(
    paths: Paths, file: Path, flag: str, variable: str, text: str, chosen: str
) -> None:
    environ = {"CRAZE_PROVIDER": variable}
    assert config.launch_provider(load(paths, text), environ, flag) == (chosen, "")


def test_an_unknown_provider(paths: Paths, file: Path) -> None:
    line = 'craze: unknown provider "x", using cursor'
    assert config.launch_provider(load(paths, "provider = 'x'"), {}) == ("cursor", line)
    assert config.launch_provider(load(paths, ""), {"CRAZE_PROVIDER": "x"}) == ("cursor", line)
    with pytest.raises(ValueError) as failure:
        config.launch_provider(load(paths, ""), {}, "x")
    assert str(failure.value) == 'unknown provider "x" (want cursor, grok, gx, or native)'


# ---- writing ----


def test_the_provider_is_saved_and_the_rest_kept(paths: Paths, umask: int) -> None:
    config.save_provider(paths, "grok")
    file = Path(paths.config)
    assert file.read_text() == 'provider = "grok"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(paths.craze).st_mode) == 0o700
    file.write_text("# mine\nnewer = [1, {a = 2}]\n[agents]\ngrok = '/g'\n")
    config.save_provider(paths, "gx")
    assert load(paths).provider == "gx" and load(paths).agents == {"grok": "/g"}
    assert "newer = [1, {a = 2}]" in file.read_text()


def test_a_provider_that_is_there_already_is_not_written_again(paths: Paths, file: Path) -> None:
    file.write_text("# a comment\nprovider = 'grok'\n")
    config.save_provider(paths, "grok")
    assert file.read_text().startswith("# a comment")


@pytest.mark.parametrize("text", ["provider = ", "a = 1\na = 2"])
def test_a_file_that_does_not_parse_is_never_overwritten(
    paths: Paths, file: Path, text: str
) -> None:
    file.write_text(text)
    with pytest.raises(MachineError, match=r"config\.toml: "):
        config.save_provider(paths, "grok")
    assert file.read_text() == text


def test_a_linked_file_stays_a_link(paths: Paths, file: Path, root: Path) -> None:
    (root / "mine.toml").write_text("provider = 'gx'")
    file.symlink_to(root / "mine.toml")
    config.save_provider(paths, "grok")
    assert file.is_symlink() and load(paths).provider == "grok"


def test_a_writer_at_work_is_waited_for_a_while(paths: Paths, file: Path) -> None:
    slept: list[float] = []
    with locks.take(lock_beside(paths.config)), pytest.raises(MachineError, match="another craze"):
        config.save_provider(paths, "grok", sleep=slept.append)
    assert sum(slept) == pytest.approx(2)
