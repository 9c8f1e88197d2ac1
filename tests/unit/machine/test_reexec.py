"""A program that was started in one way starts itself again in the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from craze.machine import reexec

SHOW = """
import json, os, sys
from craze.machine import reexec
by_module = reexec.remember()
os.chdir("/")
print(json.dumps([by_module, reexec.prefix(), sys.argv[1:]]))
"""
SCRIPT = f"#!{sys.executable}\n{SHOW}"


def shown(command: list[str], cwd: Path) -> list[object]:
    environ = os.environ | {"PYTHONPATH": str(cwd)}
    found: list[object] = json.loads(subprocess.check_output(command, cwd=cwd, env=environ))
    return found


@pytest.mark.parametrize("named", ["{root}/craze", "./craze", "craze"])
def test_a_script_is_started_by_its_path(root: Path, named: str) -> None:
    (root / "craze").write_text(SCRIPT)
    (root / "craze").chmod(0o755)
    program = named.format(root=root)
    search = {"PATH": f"{root}:{os.environ['PATH']}"}
    line = ["env", f"PATH={search['PATH']}", program, "a", "--b"]
    expected = [False, [f"{root}/craze"], ["a", "--b"]]
    assert shown(line, root) == expected
    prefix = shown(line, root)[1]
    assert shown([*prefix, "a", "--b"], Path("/")) == expected  # type: ignore[misc]


def test_a_script_that_cannot_be_run_is_given_to_the_interpreter(root: Path) -> None:
    (root / "craze").write_text(SCRIPT)
    line = [sys.executable, "craze", "a"]
    assert shown(line, root) == [False, [sys.executable, f"{root}/craze"], ["a"]]


@pytest.mark.parametrize("flags", [[], ["-X", "dev"], ["-B", "-W", "ignore"]])
def test_a_module_is_started_by_its_interpreter_with_its_flags(
    root: Path, flags: list[str]
) -> None:
    (root / "mine.py").write_text(SHOW)
    line = [sys.executable, *flags, "-m", "mine", "a", "-m", "b"]
    prefix = [sys.executable, *flags, "-m", "mine"]
    assert shown(line, root) == [True, prefix, ["a", "-m", "b"]]


def test_a_library_starts_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reexec, "_prefix", [])
    assert reexec.prefix() == [sys.executable, "-m", "craze"]


def test_b79_what_an_upgrade_took_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reexec.missing() == ""
    python, script = str(root / "python"), str(root / "craze")
    for there in ([script], [python, script], [python, "-X", "dev", script]):
        monkeypatch.setattr(reexec, "_prefix", there)
        for path in (part for part in there if part.startswith("/")):
            Path(path).touch()
        assert reexec.missing() == ""
        for path in (part for part in there if part.startswith("/")):
            Path(path).unlink()
            assert reexec.missing() == path
            Path(path).touch()
    monkeypatch.setattr(reexec, "_prefix", [python, "-m", "craze"])
    assert reexec.missing() == ""
    # Its modules went, and the interpreter stayed.
    monkeypatch.setattr(reexec, "__file__", str(root / "craze" / "machine" / "reexec.py"))
    assert reexec.missing() == str(root / "craze" / "__main__.py")
