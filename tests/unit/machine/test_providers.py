"""Which agents there are, how they are found, and the words for one that is not."""

import os
from pathlib import Path
from typing import Any

import pytest

from craze.machine import config, providers
from craze.machine.paths import Paths
from craze.machine.providers import PROVIDERS, Missing

CONFIG = "/home/me/.craze/config.toml"


def program(folder: Path, name: str, mode: int = 0o755) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def resolve(name: str, path: str = "", **options: Any) -> str | Missing:
    return providers.resolve(PROVIDERS[name], path=path, config=CONFIG, **options)


def test_the_order_of_looking(tmp_path: Path) -> None:
    flag, variable, named = (program(tmp_path, name) for name in ("flag", "variable", "named"))
    found = program(tmp_path / "bin", "cursor-agent")
    every: dict[str, Any] = {
        "path": str(tmp_path / "bin"),
        "agents": {"cursor": named},
        "flag": flag,
        "variable": variable,
    }
    assert resolve("cursor", **every) == flag
    assert resolve("cursor", **{**every, "flag": ""}) == variable
    assert resolve("cursor", **{**every, "flag": "", "variable": ""}) == named
    assert resolve("cursor", path=every["path"]) == found


def test_cursors_second_name_and_paths_that_do_not_count(tmp_path: Path) -> None:
    program(tmp_path / "a", "cursor-agent", 0o644)  # not executable
    (tmp_path / "b" / "cursor-agent").mkdir(parents=True)
    found = program(tmp_path / "c", "agent")
    folders = ["", ".", "relative", *(str(tmp_path / name) for name in "abc")]
    assert resolve("cursor", os.pathsep.join(folders)) == found


@pytest.mark.parametrize(
    ("name", "options", "reason", "fix", "error"),
    [
        (
            "cursor",
            {},
            "cursor-agent not found on PATH",
            f"install cursor-agent, or set [agents].cursor in {CONFIG}",
            "agent binary not found: cursor-agent is not on PATH (also tried agent); "
            f"install it, or set [agents].cursor in {CONFIG}",
        ),
        (
            "grok",
            {},
            "grok not found on PATH",
            f"install grok, or set [agents].grok in {CONFIG}",
            "agent binary not found: grok is not on PATH; "
            f"install it, or set [agents].grok in {CONFIG}",
        ),
        (
            "gx",
            {"agents": {"gx": "/no/gx"}},
            "[agents].gx /no/gx not found",
            f"point [agents].gx at an existing binary in {CONFIG}",
            "agent binary not found: [agents].gx /no/gx not found; "
            f"point [agents].gx at an existing binary in {CONFIG}",
        ),
        (
            "cursor",
            {"flag": "/no/x", "variable": "/bin/sh"},
            "--agent-bin /no/x not found",
            "point --agent-bin at an existing binary",
            "agent binary not found: --agent-bin /no/x not found; "
            "point --agent-bin at an existing binary",
        ),
        (
            "cursor",
            {"variable": "/no/x"},
            "CRAZE_AGENT_BIN /no/x not found",
            "point CRAZE_AGENT_BIN at an existing binary, or unset it",
            "agent binary not found: CRAZE_AGENT_BIN /no/x not found; "
            "point CRAZE_AGENT_BIN at an existing binary, or unset it",
        ),
    ],
)
def test_b39_a_program_that_is_not_there(
    name: str, options: dict[str, Any], reason: str, fix: str, error: str
) -> None:
    missing = resolve(name, "/nowhere", **options)
    assert missing == Missing(reason, fix)
    assert missing.error(PROVIDERS[name]) == error


@pytest.mark.parametrize(
    ("name", "force", "argv"),
    [
        ("cursor", False, ["/a", "--trust", "acp"]),
        ("cursor", True, ["/a", "--force", "--trust", "acp"]),
        ("grok", False, ["/a", "--no-auto-update", "agent", "stdio"]),
        ("gx", True, ["/a", "--no-auto-update", "agent", "--always-approve", "stdio"]),
    ],
)
def test_command_lines(name: str, force: bool, argv: list[str]) -> None:
    made = providers.launch(PROVIDERS[name], "/a", env={"A": "1"}, cwd="/w", force=force)
    assert (made.argv, made.env, made.cwd) == (argv, {"A": "1"}, "/w")
    more = providers.launch(PROVIDERS[name], "/a", env={}, cwd="/w", force=force, extra=["--more"])
    assert more.argv == ["/a", "--more", *argv[1:]]


@pytest.mark.parametrize(
    ("name", "able"),
    [
        (
            "cursor",
            "modes effort fastToggle subagentRows todos askCards planCards parameterizedPicker",
        ),
        (
            "grok",
            "interject modes effort subagentRows subagentTranscript todos askCards planCards "
            "parameterizedPicker",
        ),
    ],
)
def test_capabilities(name: str, able: str) -> None:
    capabilities = PROVIDERS[name].capabilities()
    assert list(capabilities) == list(providers.CAPABILITIES)
    assert [word for word, can in capabilities.items() if can] == able.split()


def test_a_provider_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = providers.custom("codex", "", ["codex-acp", "--fast"], {"KEY": "1"})
    assert (made.label, made.dialect) == ("codex", "")
    assert not made.capabilities()["interject"]
    found = program(tmp_path, "codex-acp")
    assert providers.resolve(made, path=str(tmp_path), config=CONFIG) == found
    launch = providers.launch(made, found, env={"KEY": "0", "A": "1"}, cwd="/w", force=True)
    assert launch.argv == [found, "--fast"]
    assert launch.env == {"KEY": "1", "A": "1"}
    missing = providers.resolve(made, path="", config=CONFIG)
    assert isinstance(missing, Missing)
    assert missing.error(made) == (
        "agent binary not found: codex-acp is not on PATH; "
        f"install it, or set [providers.codex].command in {CONFIG}"
    )
    by_path = providers.custom("x", "X", [found], {})
    monkeypatch.chdir(tmp_path)
    relative = providers.custom("x", "X", ["./codex-acp"], {})
    assert isinstance(providers.resolve(relative, path="", config=CONFIG), Missing)
    assert providers.resolve(by_path, path="", config=CONFIG) == found
    gone = providers.resolve(providers.custom("x", "X", ["/no/x"], {}), path="", config=CONFIG)
    assert isinstance(gone, Missing)


def test_the_providers_that_a_configuration_knows() -> None:
    settings = config.load(Paths("/nowhere", "/nowhere/.craze"), {})
    own = config.Provider("codex", ("codex-acp", "-x"), "Codex", {"A": "1"})
    settings = settings._replace(providers={"codex": own})
    assert providers.named(settings, "grok") is PROVIDERS["grok"]
    assert providers.named(settings, "codex") == providers.custom(
        "codex", "Codex", ["codex-acp", "-x"], {"A": "1"}
    )
    assert providers.named(settings, "native") is None
    assert providers.named(settings, "gone") is None
