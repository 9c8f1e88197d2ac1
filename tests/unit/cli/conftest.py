"""Commands run in this process, in an environment of their own."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest

NAMES = ("CRAZE_", "XDG_RUNTIME_DIR")


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    for name in list(os.environ):
        if name.startswith(NAMES):
            monkeypatch.delenv(name)
    root = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
    os.mkdir(f"{root}/home", 0o700)
    mine = {"HOME": f"{root}/home", "CRAZE_RUNTIME_DIR": f"{root}/run"}
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    yield mine
    shutil.rmtree(root)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(environ: dict[str, str], capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `main(arguments)` of a command: its exit code, stdout and stderr."""

    def call(main: Callable[[list[str]], int], *arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return call
