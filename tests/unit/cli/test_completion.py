"""`craze completion`, and what a shell that runs its script is offered."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from craze.bridge import command as bridge
from craze.cli import app, serve
from craze.machine import config

from .conftest import Run

BIN = Path(sys.executable).parent
WANT = "(want bash, zsh, or fish)"


# ---- the command ----


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(run: Run, shell: str) -> None:
    code, out, err = run(app.main, "completion", shell)
    assert (code, err) == (0, "")
    assert f"_CRAZE_COMPLETE=complete_{shell}" in out and out.endswith("\n")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", f"no shell {WANT}"),
        ("hunter2", f"unknown shell {WANT}"),
        ("bash zsh", "takes one argument at most (bash, zsh or fish)"),
        ("--bash", "unknown or malformed flag"),
    ],
)
def test_b72_usage_errors(run: Run, line: str, text: str) -> None:
    said = f"craze completion: {text}; see craze completion --help\n"
    assert run(app.main, "completion", *line.split()) == (2, "", said)


# ---- bash ----

OFFERS = """
source <(craze completion bash)
offers() {
    COMP_WORDS=("$@")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _craze_completion craze
    echo "${COMPREPLY[@]}"
}
while IFS='' read -r line; do
    words=()
    IFS='|' read -ra words <<< "$line"
    [[ $line == *'|' ]] && words+=("")
    offers "${words[@]}"
done
"""


def offered(environ: dict[str, str], *lines: list[str]) -> list[list[str]]:
    """What bash offers for the last word of each line."""
    ended = subprocess.run(
        ["bash", "-c", OFFERS],
        input="".join("|".join(["craze", *line]) + "\n" for line in lines),
        capture_output=True,
        text=True,
        env=environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return [sorted(line.split()) for line in ended.stdout.splitlines()]


def test_bash_completes_commands_flags_and_providers(environ: dict[str, str]) -> None:
    os.mkdir(f"{environ['HOME']}/.craze")
    Path(environ["HOME"], ".craze", "config.toml").write_text('[providers.mine]\ncommand = ["x"]\n')
    of_serve = [f"--{flag.name}" for flag in serve.FLAGS if not flag.hidden]
    of_bridge = [f"--{flag.name}" for flag in bridge.FLAGS]
    known = [*config.BUILT_IN, "mine"]
    expected: list[tuple[list[str], list[str]]] = [
        ([""], list(app.COMMANDS)),
        (["hu"], []),
        (["--v"], ["--version"]),
        (["ps", "--"], ["--help", "--json", "--no-hub", "--saved"]),
        (["ps", ""], []),  # bash's own names of files, which nothing stands in the way of
        (["providers", "--"], ["--help", "--hub", "--json"]),
        (["new", "--"], [
            "--dir", "--effort", "--fast", "--help", "--json", "--load", "--model", "--no-fast",
            "--no-force", "--provider", "--title",
        ]),
        (["new", "--provider", ""], known),
        (["new", "--provider", "=", "g"], ["grok", "gx"]),
        (["new", "--provider", "="], known),
        (["new", "--dir", ""], []),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["bridge", "--"], [*of_bridge, "--help"]),
        (["serve", "--"], [*of_serve, "--help"]),
        (["serve", "--workspace", "=", "/tmp", "--provider", "=", "m"], ["mine"]),
        (["hub", "--"], ["--help"]),
    ]  # fmt: skip
    found = offered(environ, *(line for line, _ in expected))
    assert found == [sorted(offers) for _, offers in expected]


def test_nothing_is_offered_beyond_a_configuration_that_cannot_be_read(
    environ: dict[str, str],
) -> None:
    os.mkdir(f"{environ['HOME']}/.craze")
    Path(environ["HOME"], ".craze", "config.toml").write_text("[[[")
    built_in = sorted(config.BUILT_IN)
    assert offered(environ, ["new", "--provider", ""]) == [built_in]
    assert offered(environ | {"HOME": "x"}, ["new", "--provider", ""]) == [built_in]


# ---- the others ----


def answered(environ: dict[str, str], shell: str, line: str) -> str:
    """What the script of another shell gets for a line, typed so far."""
    asked = {"_CRAZE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line,
             "_TYPER_COMPLETE_FISH_ACTION": "get-args"}  # fmt: skip
    ended = subprocess.run(
        [BIN / "craze"], capture_output=True, text=True, env=environ | asked, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.rstrip("\n")


def test_fish_is_told_what_each_is_for_on_one_line(environ: dict[str, str]) -> None:
    commands = answered(environ, "fish", "craze ").splitlines()
    assert sorted(commands) == [f"{name}\t{summary}" for name, summary in app.COMMANDS.items()]
    assert answered(environ, "fish", "craze new --pro") == (
        "--provider\tThe agent: cursor, grok, gx, or another of config.toml's; the one that last"
        " started if not given."
    )
    assert answered(environ, "fish", "craze serve --provider g") == "grok\ngx"


def test_zsh_is_told_what_each_is_for(environ: dict[str, str]) -> None:
    assert answered(environ, "zsh", "craze pro") == (
        '_arguments \'*: :(("providers":"list the agents, and whether each can be started"))\''
    )
    assert answered(environ, "zsh", "craze bridge --se").startswith(
        '_arguments \'*: :(("--session":"Bridge to this session\\\\: its craze session id,'
    )
    assert answered(environ, "zsh", "craze ps ") == "_files"


# ---- what it must not cost ----


def test_the_commands_that_must_start_fast_load_none_of_it() -> None:
    program = (
        "import sys; from craze.cli import hub, serve; from craze.bridge import command;"
        "sys.exit(any(name in sys.modules for name in ('typer', 'craze.cli.completion')))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
