import os
import stat
from pathlib import Path

import pytest

from craze.machine import trees
from craze.machine.errors import MachineError
from craze.machine.paths import Paths

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
NOBODY = 65534


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_what_is_created_is_private_under_any_umask(paths: Paths, umask: int) -> None:
    trees.cache(paths, paths.hosts)
    for directory in (os.path.dirname(paths.cache), paths.cache, paths.hosts):
        assert mode(directory) == 0o700
    assert trees.cache_exists(paths, paths.hosts)


def test_no_tree_is_no_error(paths: Paths) -> None:
    assert not trees.cache_exists(paths, paths.hosts)


@pytest.mark.parametrize("wrong", [0o755, 0o750, 0o777, 0o600, 0o1700])
@pytest.mark.parametrize("level", ["cache", "hosts"])
def test_a_wrong_mode_is_an_error_and_stays(paths: Paths, wrong: int, level: str) -> None:
    trees.cache(paths, paths.hosts)
    directory = getattr(paths, level)
    os.chmod(directory, wrong)
    text = (
        f"{directory} has mode {wrong:04o}, and 0700 is required; craze never changes it"
        f" (chmod 700 it or remove it)"
    )
    for check in (trees.cache, trees.cache_exists):
        with pytest.raises(MachineError) as failure:
            check(paths, paths.hosts)
        assert str(failure.value) == text
    assert mode(directory) == wrong
    os.chmod(directory, 0o700)


def test_the_setgid_bit_is_allowed(paths: Paths) -> None:
    trees.cache(paths, paths.hosts)
    os.chmod(paths.hosts, 0o2700)
    trees.cache(paths, paths.hosts)
    assert mode(paths.hosts) == 0o2700


@pytest.mark.parametrize("level", ["cache", "hosts"])
def test_b33_a_link_in_the_place_of_a_directory_is_refused(
    paths: Paths, root: Path, level: str
) -> None:
    trees.cache(paths, paths.hosts)
    directory = getattr(paths, level)
    os.rename(directory, root / "elsewhere")
    os.symlink(root / "elsewhere", directory)
    with pytest.raises(MachineError, match="is a symbolic link"):
        trees.cache(paths, paths.hosts)


def test_a_file_in_the_place_of_a_directory_is_refused(paths: Paths) -> None:
    os.makedirs(os.path.dirname(paths.cache))
    Path(paths.cache).touch()
    with pytest.raises(MachineError, match="is not a directory"):
        trees.cache(paths, paths.hosts)
    with pytest.raises(MachineError, match="is not a directory"):
        trees.cache_exists(paths, paths.hosts)


def test_a_missing_home_is_said(paths: Paths, root: Path) -> None:
    (root / "home").rmdir()
    with pytest.raises(MachineError, match=r"\.cache: no such file or directory"):
        trees.cache(paths, paths.hosts)
    (root / "home").mkdir()


@AS_ROOT
def test_b33_another_users_directory_is_refused(paths: Paths) -> None:
    trees.cache(paths, paths.hosts)
    os.chown(paths.hosts, NOBODY, NOBODY)
    with pytest.raises(MachineError, match=r"hosts is owned by uid 65534, and uid 0 is required"):
        trees.cache(paths, paths.hosts)


@pytest.mark.parametrize(
    ("wrong", "own_group", "hint"),
    [
        (0o770, True, None),
        (0o770, False, "chmod g-w"),
        (0o777, True, "chmod go-w"),
        (0o777, False, "chmod go-w"),
        (0o1777, False, None),
        (0o755, False, None),
    ],
)
def test_an_ancestor_that_others_may_write(
    root: Path, wrong: int, own_group: bool, hint: str | None
) -> None:
    above = root / "above"
    above.mkdir()
    above.chmod(wrong)
    if hint is None:
        trees.ancestors(f"{above}/craze", own_group=own_group)
        return
    with pytest.raises(MachineError) as failure:
        trees.ancestors(f"{above}/craze", own_group=own_group)
    assert str(failure.value) == (
        f"ancestor {above} is group- or world-writable without the sticky bit (mode {wrong:04o}),"
        f" so another user could replace what craze puts under it; if nobody else should write to"
        f" it, run: {hint} {above}"
    )


@AS_ROOT
def test_an_ancestor_of_another_user_is_refused(root: Path) -> None:
    above = root / "above"
    above.mkdir()
    os.chown(above, NOBODY, NOBODY)
    with pytest.raises(MachineError, match="owned by uid 65534, and root or uid 0 is required"):
        trees.ancestors(f"{above}/craze", own_group=True)


def test_the_cache_tree_may_lie_behind_a_link(root: Path) -> None:
    (root / "real").mkdir(mode=0o700)
    (root / "link").symlink_to(root / "real")
    paths = Paths(str(root / "link"), str(root / "c"))
    trees.cache(paths, paths.hosts)
    assert mode(root / "real/.cache/craze/hosts") == 0o700


def test_the_craze_directory_is_made_private(root: Path, umask: int) -> None:
    trees.home(str(root / "a/b"))
    trees.home(str(root / "a/b"))
    assert mode(root / "a") == mode(root / "a/b") == 0o700
