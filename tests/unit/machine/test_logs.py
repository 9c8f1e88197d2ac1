import os
import stat
from pathlib import Path

import pytest

from craze.clock import ManualClock
from craze.machine import logs, registry, trees
from craze.machine.paths import Paths

NOW = 1_790_000_000 * 1_000_000_000
WEEK = 7 * 24 * 3600


def test_lines_are_stamped_and_private(root: Path, umask: int) -> None:
    path = root / "h.log"
    log = logs.LogFile(str(path), "craze serve", ManualClock(NOW))
    log.write("stopping: idle")
    log.write("é\x1b]0;x\x07 two\nlines\udcff")
    log.close()
    log.write("too late")
    assert path.read_text() == (
        "2026-09-21T14:13:20Z craze serve: stopping: idle\n"
        "2026-09-21T14:13:20Z craze serve: é two lines\ufffd\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_goes_on_where_it_was_and_is_rotated_once(root: Path) -> None:
    path = root / "h.log"
    for number in range(4):
        log = logs.LogFile(str(path), "n", ManualClock(NOW), limit=60)
        log.write(f"{number}" * 10)
        log.close()
    lines = [f"2026-09-21T14:13:20Z n: {str(number) * 10}\n" for number in range(4)]
    assert (root / "h.log.1").read_text() == lines[0] + lines[1]
    assert path.read_text() == lines[2] + lines[3]
    assert sorted(os.listdir(root)) == ["h.log", "h.log.1"]


def test_a_log_that_is_no_file_is_neither_waited_for_nor_closed_to_others(root: Path) -> None:
    path = root / "pipe"
    os.mkfifo(path)
    path.chmod(0o644)
    with pytest.raises(OSError):
        logs.LogFile(str(path), "n", ManualClock(NOW))  # nobody reads it
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = logs.LogFile(str(path), "n", ManualClock(NOW))
    for _ in range(10_000):
        log.write("more than a pipe holds")
    log.close()
    assert os.read(reading, 100).startswith(b"2026-09-21T14:13:20Z n: more")
    os.close(reading)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_log_that_cannot_be_written_fails_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.LogFile(str(root / "h.log"), "n", ManualClock(NOW))

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        log.write("lost")
    log.write("kept")
    log.close()
    assert (root / "h.log").read_text().endswith("kept\n")


def test_b33_a_link_is_no_log(root: Path) -> None:
    (root / "h.log").symlink_to(root / "victim")
    with pytest.raises(OSError):
        logs.LogFile(str(root / "h.log"), "n", ManualClock(NOW))


def test_old_logs_of_hosts_that_have_gone_are_removed(paths: Paths) -> None:
    listing = registry.bind(paths, "0123456789ab", {"startedAt": "t"})
    trees.cache(paths, paths.host_logs)
    old = (NOW // 1_000_000_000) - WEEK - 1
    for host in ("0123456789ab", "aaaaaaaaaaaa"):
        for kind in ("log", "log.1", "pgids"):
            path = Path(paths.host_logs, f"{host}.{kind}")
            path.touch()
            os.utime(path, (old, old))
    for name in ("hub-00000000.log", "mine.log", "aaaaaaaaaaaa.other"):
        Path(paths.host_logs, name).touch()
        os.utime(Path(paths.host_logs, name), (old, old))
    recent = Path(paths.host_log("bbbbbbbbbbbb"))
    recent.touch()
    os.utime(recent, (old + 2, old + 2))
    assert logs.sweep(paths, ManualClock(NOW)) == 3
    assert sorted(os.listdir(paths.host_logs)) == [
        "0123456789ab.log", "0123456789ab.log.1", "0123456789ab.pgids", "aaaaaaaaaaaa.other",
        "bbbbbbbbbbbb.log", "hub-00000000.log", "mine.log",
    ]  # fmt: skip
    listing.unbind()
    assert logs.sweep(paths, ManualClock(NOW)) == 3


def test_no_logs_at_all(paths: Paths) -> None:
    assert logs.sweep(paths, ManualClock(NOW)) == 0
