import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from craze.machine import runtime
from craze.machine.errors import MachineError
from craze.machine.paths import Paths

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
HOST = "0123456789ab.sock"


def with_runtime(root: Path, given: str, xdg: str = "") -> Paths:
    return Paths(str(root / "home"), str(root / "c"), given, xdg)


@pytest.fixture
def last(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The candidate of last resort, which is not the real one under /tmp."""
    path = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
    candidates = runtime._candidates
    real = list(candidates(""))

    def replaced(xdg: str) -> Iterator[str]:
        for candidate in candidates(xdg):
            if candidate not in real:
                yield candidate
        yield f"{path}/craze"

    monkeypatch.setattr(runtime, "_candidates", replaced)
    yield f"{path}/craze"
    shutil.rmtree(path)


def test_the_variable_names_the_base_and_it_is_made(root: Path, umask: int) -> None:
    paths = with_runtime(root, f" {root}/a//run/ ")
    directory = runtime.socket_directory(paths)
    assert directory == f"{root}/a/run/{paths.namespace}"
    for path in (directory, f"{root}/a/run", f"{root}/a"):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o700
    assert runtime.socket_directory(paths) == directory


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("x", 'rundir: CRAZE_RUNTIME_DIR="x" is not an absolute path'),
        ("~/x", 'rundir: CRAZE_RUNTIME_DIR="~/x" is not an absolute path'),
        ("/", "rundir: CRAZE_RUNTIME_DIR=/ cannot be a craze-owned directory"),
        ("//..", "rundir: CRAZE_RUNTIME_DIR=/ cannot be a craze-owned directory"),
    ],
)
def test_a_variable_that_names_no_directory(root: Path, given: str, text: str) -> None:
    with pytest.raises(MachineError) as failure:
        runtime.socket_directory(with_runtime(root, given))
    assert str(failure.value) == text


def test_an_unusable_variable_has_no_fallback(root: Path, last: str) -> None:
    (root / "run").mkdir(mode=0o755)
    (root / "run").chmod(0o755)
    with pytest.raises(MachineError, match=r"run has mode 0755, and 0700 is required"):
        runtime.socket_directory(with_runtime(root, f"{root}/run", f"{root}"))
    assert not os.path.exists(last)


def test_b33_a_link_as_base_is_refused(root: Path) -> None:
    (root / "real").mkdir(mode=0o700)
    (root / "run").symlink_to(root / "real")
    with pytest.raises(MachineError, match="is a symbolic link"):
        runtime.socket_directory(with_runtime(root, f"{root}/run"))
    assert not os.listdir(root / "real")


@AS_ROOT
def test_b33_a_base_that_another_user_made_first_is_refused(root: Path) -> None:
    (root / "run").mkdir(mode=0o700)
    os.chown(root / "run", 65534, 65534)
    with pytest.raises(MachineError, match="is owned by uid 65534"):
        runtime.socket_directory(with_runtime(root, f"{root}/run"))


def test_a_namespace_directory_of_ours_is_corrected(root: Path) -> None:
    paths = with_runtime(root, f"{root}/run")
    directory = runtime.socket_directory(paths)
    os.chmod(directory, 0o755)
    runtime.socket_directory(paths)
    assert stat.S_IMODE(os.lstat(directory).st_mode) == 0o700


def test_a_group_writable_ancestor_is_refused_here(root: Path) -> None:
    (root / "shared").mkdir()
    (root / "shared").chmod(0o770)
    with pytest.raises(MachineError, match="group- or world-writable without the sticky bit"):
        runtime.socket_directory(with_runtime(root, f"{root}/shared/run"))


def test_the_base_is_canonical(root: Path) -> None:
    (root / "real").mkdir(mode=0o700)
    (root / "link").symlink_to(root / "real")
    paths = with_runtime(root, f"{root}/link/run")
    assert runtime.socket_directory(paths) == f"{root}/real/run/{paths.namespace}"


def test_b26_the_limit_is_in_bytes_and_checked_before_anything_is_made(root: Path) -> None:
    base = f"{root}/" + "é" * 52
    paths = with_runtime(root, base)
    path = f"{base}/{paths.namespace}/{'0' * 12}.sock"
    assert len(path) <= 100 < len(path.encode())
    with pytest.raises(MachineError) as failure:
        runtime.socket_directory(paths)
    assert str(failure.value) == (
        f"the socket path {path} is {len(path.encode())} bytes, over the 100-byte limit;"
        f" set CRAZE_RUNTIME_DIR to a shorter absolute path"
    )
    assert os.listdir(root) == []


@pytest.mark.parametrize("over", [0, 1])
def test_b26_exactly_a_hundred_bytes_are_usable(root: Path, over: int) -> None:
    rest = len(f"{root}//{'0' * 8}/{HOST}")
    paths = with_runtime(root, f"{root}/" + "r" * (100 - rest + over))
    if over:
        with pytest.raises(MachineError, match="is 101 bytes"):
            runtime.socket_directory(paths)
        return
    assert len(f"{runtime.socket_directory(paths)}/{HOST}") == 100


def test_the_users_runtime_directory_comes_next(root: Path, last: str) -> None:
    paths = with_runtime(root, "", str(root))
    assert runtime.socket_directory(paths) == f"{root}/craze/{paths.namespace}"


@pytest.mark.parametrize("why", ["long", "missing", "relative", "open"])
def test_b26_a_short_directory_is_fallen_back_to(root: Path, last: str, why: str) -> None:
    xdg = {
        "long": root / ("é" * 45),
        "missing": root / "missing",
        "relative": Path("here"),
        "open": root / "open",
    }[why]
    if why in ("long", "open"):
        xdg.mkdir()
        xdg.chmod(0o777 if why == "open" else 0o700)
    paths = with_runtime(root, "", str(xdg))
    assert runtime.socket_directory(paths) == f"{last}/{paths.namespace}"
    assert not (root / "missing").exists()


def test_every_candidate_tried_is_named(root: Path, last: str) -> None:
    Path(last).touch()
    paths = with_runtime(root, "", f"{root}/missing")
    with pytest.raises(MachineError) as failure:
        runtime.socket_directory(paths)
    assert str(failure.value) == (
        f"rundir: no usable directory for the control socket"
        f" ({root}/missing/craze: no such file or directory;"
        f" {last} is not a directory (remove it));"
        f" set CRAZE_RUNTIME_DIR to a short absolute path you own"
    )


def test_one_place_by_two_names_is_tried_once(root: Path, last: str) -> None:
    Path(last).touch()
    (root / "link").symlink_to(os.path.dirname(last))
    with pytest.raises(MachineError) as failure:
        runtime.socket_directory(with_runtime(root, "", f"{root}/link"))
    assert str(failure.value).count("is not a directory") == 1


def test_the_real_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    euid = os.geteuid()
    monkeypatch.setattr(runtime.sys, "platform", "darwin")
    assert list(runtime._candidates("/x")) == ["/x/craze", f"/private/tmp/craze-{euid}"]
    monkeypatch.setattr(runtime.sys, "platform", "linux")
    monkeypatch.setattr(runtime, "_is_private", lambda path: path == f"/run/user/{euid}")
    assert list(runtime._candidates("")) == [f"/run/user/{euid}/craze", f"/tmp/craze-{euid}"]
