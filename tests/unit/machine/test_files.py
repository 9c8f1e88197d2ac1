import os
import stat
from pathlib import Path

import pytest

from craze.machine import files


def test_a_file_is_private_from_its_first_instant_under_any_umask(root: Path, umask: int) -> None:
    fd = files.create(str(root / "f"))
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o600
    os.close(fd)
    files.replace(str(root / "g"), b"x")
    assert stat.S_IMODE(os.lstat(root / "g").st_mode) == 0o600


def test_b33_nothing_opens_a_new_file_to_others_even_for_an_instant(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fchmod = os.fchmod
    monkeypatch.setattr(
        files.os, "fchmod", lambda fd, mode: (seen.append(os.fstat(fd).st_mode), fchmod(fd, mode))
    )
    before = os.umask(0)
    files.replace(str(root / "f"), b"x")
    os.umask(before)
    assert [stat.S_IMODE(mode) for mode in seen] == [0o600]


def test_b33_a_link_is_neither_written_nor_read_through(root: Path) -> None:
    (root / "victim").write_bytes(b"mine")
    (root / "f").symlink_to(root / "victim")
    with pytest.raises(FileExistsError):
        files.create(str(root / "f"))
    with pytest.raises(OSError):
        files.read(str(root / "f"), 100)
    files.replace(str(root / "f"), b"new")
    assert (root / "victim").read_bytes() == b"mine"
    assert (root / "f").read_bytes() == b"new"


def test_a_file_is_replaced_whole_and_known_again(root: Path) -> None:
    path = str(root / "f")
    first = files.put(path, b"one")
    assert first.lost == ""
    second = files.put(path, b"two")
    assert (first.lost, second.lost) == ("is another file now", "")
    first.remove()
    assert files.read(path, 3) == b"two"
    os.unlink(path)
    assert second.lost == "is gone"
    assert os.listdir(root) == []
    second.remove()


def test_b29_a_file_made_in_the_place_of_ours_is_not_taken_for_it(root: Path) -> None:
    path = root / "f"
    ours = files.put(str(path), b"ours")
    for _ in range(20):  # a file system gives the number of a removed file out again
        path.unlink()
        path.write_text("another's")
        assert ours.lost == "is another file now"
    ours.remove()
    assert path.read_text() == "another's"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(root / "f")
    files.replace(path, b"old")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        files.replace(path, b"new")
    assert os.listdir(root) == ["f"]
    assert (root / "f").read_bytes() == b"old"


def test_short_writes_are_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(files.os, "write", lambda fd, data: write(fd, data[:3]))
    files.replace(str(root / "f"), b"0123456789")
    assert (root / "f").read_bytes() == b"0123456789"


def test_a_file_over_the_limit_is_refused(root: Path) -> None:
    (root / "f").write_bytes(b"x" * 11)
    assert files.read(str(root / "f"), 11) == b"x" * 11
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        files.read(str(root / "f"), 10)
    with pytest.raises(IsADirectoryError):
        files.read(str(root), 10)
