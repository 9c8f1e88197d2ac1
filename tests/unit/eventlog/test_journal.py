"""The journal's writer: when lines reach the file, what a slow or broken disk costs, replays."""

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze.clock import ManualClock
from craze.eventlog import CursorRefused, EventLog, ReplayFailed
from craze.eventlog.journal import Journal, create, load, read, slug
from craze.wire import limits

from .helpers import INCARNATION, START, drain, fill, make_log, record

Make = Callable[..., Journal]


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def make(tmp_path: Path, notices: list[str]) -> Iterator[Make]:
    """Journals that flush only when asked, unless told otherwise, and are closed at the end."""
    made: list[Journal] = []

    def journal(**options: Any) -> Journal:
        options.setdefault("flush_seconds", 60.0)
        options.setdefault("notice", notices.append)
        clock = options.pop("clock", None) or ManualClock(START)
        head = {"incarnation": INCARNATION, "cwd": "/home/me/app"}
        made.append(Journal(str(tmp_path / "journal"), head, clock, **options))
        return made[-1]

    yield journal
    for one in made:
        one.close()


class Gate:
    """An opener that holds the writer's thread until it is let through."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, path: str) -> int:
        self.opened.wait(10)
        return create(path)


def wait_until(true: Callable[[], object]) -> None:
    with gevent.Timeout(5):
        while not true():
            gevent.sleep(0.002)


def kinds(journal: Journal) -> list[str]:
    found = []
    for line in load(journal.path):
        kind = line["type"]
        found.append(f"{kind} {line['kind']}" if kind == "diag" else kind)
    return found


def reason_of(replay: Callable[[], object]) -> str:
    with pytest.raises((ReplayFailed, CursorRefused)) as failed:
        replay()
    return str(failed.value.reason)


def test_the_directory_s_name() -> None:
    assert slug("/home/me/src/app") == "--home-me-src-app--"
    assert slug("/") == "----"
    assert slug("C:\\work\\x") == "--C--work-x--"
    assert slug("\\\\host\\x") == "---host-x--"
    assert slug("/a b/é") == "--a b-é--"
    assert slug("/a-b") == slug("/a/b")
    exact = "/" + "x" * 196
    assert slug(exact) == "--" + "x" * 196 + "--"
    full = "--" + "é" * 150 + "--"
    made = slug("/" + "é" * 150)
    assert len(made.encode()) <= 200
    assert made == "--" + "é" * 93 + f"-{hashlib.sha256(full.encode()).hexdigest()[:8]}--"


def test_the_file_s_path_and_modes(make: Make, tmp_path: Path) -> None:
    journal = make()
    assert journal.path == str(
        tmp_path / "journal" / "--home-me-app--" / "20260101T000000Z_I-1.jsonl"
    )
    seen: list[int] = []
    old = os.umask(0)
    try:
        journal.event(record(1))
        assert not os.path.exists(journal.path)
        journal.close()
        for path in (journal.path, os.path.dirname(journal.path), str(tmp_path / "journal")):
            seen.append(stat.S_IMODE(os.stat(path).st_mode))
    finally:
        os.umask(old)
    assert seen == [0o600, 0o700, 0o700]


def test_a_directory_that_is_there_is_used_as_it_is(make: Make, tmp_path: Path) -> None:
    there = tmp_path / "journal"
    there.mkdir(mode=0o755)
    journal = make()
    journal.event(record(1))
    journal.close()
    assert stat.S_IMODE(there.stat().st_mode) == 0o755
    assert kinds(journal) == ["header", "event", "diag closing"]


def test_a_name_that_is_no_file_s_is_refused(tmp_path: Path) -> None:
    for name in ("", "../x", "a/b", "a b"):
        with pytest.raises(ValueError, match="incarnation"):
            Journal(str(tmp_path), {"incarnation": name, "cwd": "/"}, ManualClock(START))


def test_nothing_to_say_makes_no_file(make: Make) -> None:
    journal = make()
    journal.close()
    assert not os.path.exists(os.path.dirname(journal.path))
    journal.event(record(1))
    assert not os.path.exists(os.path.dirname(journal.path))


def test_b73_a_journal_is_never_opened_again(make: Make, notices: list[str]) -> None:
    first = make()
    first.event(record(1))
    first.close()
    before = Path(first.path).read_bytes()
    second = make()
    second.event(record(1))
    second.close()
    assert Path(first.path).read_bytes() == before
    assert second.health == "failed"
    assert len(notices) == 1


def test_lines_reach_the_file_in_time_without_being_asked_for(make: Make) -> None:
    journal = make(flush_seconds=0.01)
    journal.event(record(1))
    wait_until(lambda: os.path.exists(journal.path) and kinds(journal) == ["header", "event"])
    journal.event(record(2))  # and again, after the thread has gone idle
    wait_until(lambda: kinds(journal) == ["header", "event", "event"])
    gevent.sleep(0.05)
    journal.event(record(3))
    wait_until(lambda: len(kinds(journal)) == 4)


def test_lines_or_bytes_enough_are_written_at_once(make: Make) -> None:
    by_lines = make(flush_lines=10)
    for seq in range(1, 10):
        by_lines.event(record(seq))
    gevent.sleep(0.05)
    assert not os.path.exists(by_lines.path)
    by_lines.event(record(10))
    wait_until(lambda: by_lines._file.written == 10)
    by_lines.close()
    os.unlink(by_lines.path)
    by_bytes = make(flush_bytes=1000)
    by_bytes.event(record(1, "x" * 900))
    gevent.sleep(0.05)
    assert not os.path.exists(by_bytes.path)
    by_bytes.event(record(2, "x" * 900))
    by_bytes.event(record(3, "x" * 900))
    wait_until(lambda: by_bytes._file.written == 3)


def test_only_the_end_of_a_prompt_and_the_close_sync(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        synced.append(kinds(journal))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    journal = make(flush_lines=2)
    journal.note("prompt", {"attempt": "prompt-1", "text": "hi", "kind": "prompt"})
    journal.event(record(1))
    wait_until(lambda: journal._file.written == 1)
    assert synced == []
    journal.note("prompt_end", {"attempt": "prompt-1", "stopReason": "end_turn", "durationMs": 1})
    wait_until(lambda: len(synced) == 1)
    assert synced[0] == ["header", "prompt", "event", "prompt_end"]
    journal.close()
    assert synced[1:] == [["header", "prompt", "event", "prompt_end", "diag closing"]]


def test_what_was_committed_is_what_is_read(make: Make) -> None:
    journal = make()
    log = make_log(journal=journal, ring_events=10, record_bytes=200)
    subscription = log.subscribe(None, None, wake=lambda: None)
    fill(log, 20)
    log.commit({"type": "text", "text": "x" * 300})
    fill(log, 30)
    committed = [subscription.take() for _ in range(51)]
    resumed = log.subscribe(3, INCARNATION, wake=lambda: None)
    assert resumed.file_range == (4, 41)
    found = list(log.read_file(4, 41))
    for one, again in zip(committed[3:41], found, strict=True):
        assert one is not None
        assert (one.seq, one.type, one.at, one.body, one.omitted, one.size) == (
            again.seq, again.type, again.at, again.body, again.omitted, again.size,
        )  # fmt: skip
    assert drain(resumed) == list(range(42, 52))
    log.close()
    assert [one.seq for one in log.read_file(1, 51)] == list(range(1, 52))
    assert kinds(journal).count("diag record_omitted") == 1


def test_a_stalled_disk_costs_a_gap_that_is_said_once(make: Make, notices: list[str]) -> None:
    gate = Gate()
    journal = make(opener=gate, queue_entries=4, flush_lines=1)
    log = make_log(journal=journal, ring_events=2)
    fill(log, 1)
    wait_until(lambda: not journal._queue)  # the thread has it, and is held
    fill(log, 7)  # four are queued, 6 to 8 are not
    journal.diag("agent_stderr", {"line": "dropped, too"})
    assert (journal.health, journal.gaps, len(notices)) == ("gap", [(6, 8)], 1)
    assert reason_of(lambda: log.subscribe(2, INCARNATION, wake=drain)) == "journal_gap"  # type: ignore[arg-type]
    gate.opened.set()
    wait_until(lambda: journal._file.written == 5)
    fill(log, 1)
    assert [one.seq for one in journal.replay(1, 5)] == [1, 2, 3, 4, 5]
    for low, high in ((1, 6), (7, 7), (8, 9)):
        assert journal.missing(low, high) == "journal_gap"
        assert reason_of(lambda low=low, high=high: list(journal.replay(low, high))) == (  # type: ignore[misc]
            "journal_gap"
        )
    assert [one.seq for one in journal.replay(9, 9)] == [9]
    log.close()
    lines = list(load(journal.path))
    assert [line.get("seq") or line["type"] for line in lines] == [
        "header", 1, 2, 3, 4, 5, "gap", 9, "diag",
    ]  # fmt: skip
    stated = {name: lines[6][name] for name in list(lines[6])[2:]}
    assert stated == {
        "fromSeq": 6, "toSeq": 8, "droppedEvents": 3, "droppedNotes": 1,
        "error": "journal queue full",
    }  # fmt: skip
    assert len(notices) == 1


def test_the_queue_is_bounded_in_bytes_to_the_byte(make: Make) -> None:
    size = record(1).size
    journal = make(queue_bytes=3 * size)
    for seq in range(1, 5):
        journal.event(record(seq))
    assert journal.gaps == [(4, 4)]
    journal.close()
    assert [line.get("seq") or line["type"] for line in load(journal.path)] == [
        "header", 1, 2, 3, "gap",
    ]  # fmt: skip


def test_a_journal_remembers_so_many_gaps_and_then_wider_ones(make: Make) -> None:
    gate = Gate()
    journal = make(opener=gate, queue_entries=1, flush_lines=1)
    journal.event(record(1))
    wait_until(lambda: not journal._queue)
    journal.event(record(2))  # now the queue is full: every later record is dropped
    dropped = [3 + 10 * i for i in range(limits.JOURNAL_GAPS)]
    for seq in dropped:
        journal.event(record(seq))
    assert len(journal.gaps) == limits.JOURNAL_GAPS
    journal.event(record(dropped[-1] + 2))
    assert len(journal.gaps) == limits.JOURNAL_GAPS
    assert journal.gaps[-1] == (dropped[-1], dropped[-1] + 2)
    assert journal.missing(dropped[-1] + 1, dropped[-1] + 1) == "journal_gap"
    gate.opened.set()


def test_b73_a_full_disk_fails_the_journal_for_good_and_nothing_else(
    make: Make, notices: list[str]
) -> None:
    journal = make(opener=lambda path: os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC))
    log = make_log(journal=journal, ring_events=2)
    seen: list[int] = []
    subscription = log.subscribe(None, None, wake=lambda: seen.extend(drain(subscription)))
    fill(log, 5)
    assert reason_of(lambda: list(log.read_file(1, 3))) == "journal_behind"
    assert journal.health == "failed"
    assert os.strerror(errno.ENOSPC) in journal.error
    fill(log, 5)
    assert seen == list(range(1, 11))
    assert reason_of(lambda: log.subscribe(2, INCARNATION, wake=lambda: None)) == "no_journal"
    log.close()
    assert len(notices) == 1
    assert not os.path.exists(journal.path)


def test_b73_a_disk_that_fills_up_leaves_what_was_complete(
    make: Make, monkeypatch: pytest.MonkeyPatch, notices: list[str]
) -> None:
    journal = make()
    log = make_log(journal=journal, ring_events=2)
    fill(log, 5)
    assert [one.seq for one in log.read_file(1, 5)] == [1, 2, 3, 4, 5]
    write = os.write
    left = 30

    def filling(fd: int, data: memoryview) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken, left = left, 0
        return write(fd, data[:taken])

    with monkeypatch.context() as patch:
        patch.setattr("craze.eventlog.writer.os.write", filling)
        fill(log, 3)
        assert reason_of(lambda: list(log.read_file(1, 8))) == "journal_behind"
    assert journal.health == "failed"
    assert [one.seq for one in log.read_file(1, 5)] == [1, 2, 3, 4, 5]
    assert journal.missing(1, 5) == ""
    assert journal.missing(1, 6) == journal.missing(8, 8) == "journal_gap"
    assert [one.seq for one in read(journal.path, 1, 5, INCARNATION)] == [1, 2, 3, 4, 5]
    assert len(list(load(journal.path))) == 6  # the torn line is not one
    assert len(notices) == 1


def test_b03_a_file_that_does_not_catch_up_in_time(make: Make) -> None:
    gate = Gate()
    journal = make(opener=gate, catch_up=0.02)
    log = make_log(journal=journal, ring_events=2)
    fill(log, 5)
    subscription = log.subscribe(0, INCARNATION, wake=lambda: None)
    assert subscription.file_range == (1, 3)
    assert reason_of(lambda: list(log.read_file(1, 3))) == "journal_behind"
    gate.opened.set()
    assert [one.seq for one in log.read_file(1, 3)] == [1, 2, 3]


def test_b03_a_gap_while_the_file_is_waited_for(make: Make) -> None:
    gate = Gate()
    journal = make(opener=gate, queue_entries=2, flush_lines=1)
    for seq in (1, 2, 3):
        journal.event(record(seq))
    wait_until(lambda: len(journal._queue) < 2 or journal.gaps)
    waiting = gevent.spawn(lambda: reason_of(lambda: list(journal.replay(1, 9))))
    gevent.sleep(0.01)
    for seq in range(4, 10):
        journal.event(record(seq))
    gate.opened.set()
    assert waiting.get(timeout=5) == "journal_gap"


def test_b03_a_file_that_vanishes(make: Make) -> None:
    journal = make()
    log = make_log(journal=journal, ring_events=2)
    fill(log, 5)
    assert len(list(log.read_file(1, 3))) == 3
    os.unlink(journal.path)
    assert reason_of(lambda: list(log.read_file(1, 3))) == "no_journal"


def test_b03_a_file_that_somebody_changed(make: Make) -> None:
    journal = make()
    log = make_log(journal=journal, ring_events=2)
    fill(log, 5)
    assert len(list(log.read_file(1, 3))) == 3
    data = Path(journal.path).read_bytes()
    Path(journal.path).write_bytes(data.replace(b'"eventType":"text"', b'"eventType":"test"'))
    assert reason_of(lambda: list(log.read_file(1, 3))) == "evicted"


def test_a_journal_that_was_closed_first_is_behind_for_good(make: Make) -> None:
    journal = make()
    journal.event(record(1))
    journal.close()
    assert reason_of(lambda: list(journal.replay(1, 2))) == "journal_behind"


def test_b57_an_outer_timeout_leaves_a_replay_and_the_journal_whole(make: Make) -> None:
    gate = Gate()
    journal = make(opener=gate)
    log = make_log(journal=journal, ring_events=2)
    fill(log, 5)
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        list(log.read_file(1, 3))
    reader = gevent.spawn(lambda: list(log.read_file(1, 3)))
    gevent.sleep(0.01)
    reader.kill()
    gate.opened.set()
    assert [one.seq for one in log.read_file(1, 3)] == [1, 2, 3]
    assert journal.health == "ok"


def test_b57_a_replay_abandoned_half_way_leaves_nothing_open(make: Make) -> None:
    log = make_log(journal=make(), ring_events=2)
    fill(log, 2000, "x" * 400)
    replay = log.read_file(1, 1998)
    assert [next(replay).seq for _ in range(3)] == [1, 2, 3]
    del replay
    log.close()


def test_b73_a_writer_killed_at_any_point_leaves_a_journal_that_loads(tmp_path: Path) -> None:
    program = (
        "import sys, gevent\n"
        "from craze.clock import Clock\n"
        "from craze.eventlog import EventLog\n"
        "from craze.eventlog.journal import Journal\n"
        "head = {'incarnation': 'I-1', 'cwd': '/'}\n"
        "journal = Journal(sys.argv[1], head, Clock(), flush_lines=3)\n"
        "log = EventLog('I-1', Clock(), observer=lambda seq, event: None, journal=journal)\n"
        "print(journal.path, flush=True)\n"
        "while True:\n"
        "    log.commit({'type': 'text', 'text': 'x' * 5000})\n"
        "    gevent.sleep(0.0001)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        path = child.stdout.readline().strip()
        try:
            wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 100_000)
        finally:
            child.kill()
    seqs = [line["seq"] for line in load(path) if line["type"] == "event"]
    assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) > 10
    assert [one.seq for one in read(path, 1, len(seqs), INCARNATION)] == seqs


def test_closing_does_not_wait_for_a_disk_that_hangs(make: Make) -> None:
    gate = Gate()
    journal = make(opener=gate, close_wait=0.02)
    log = make_log(journal=journal)
    fill(log, 1)
    log.close()  # comes back, and the disk's own pace decides the rest
    assert not os.path.exists(journal.path)
    gate.opened.set()
    wait_until(lambda: journal._over)
    assert kinds(journal) == ["header", "event", "diag closing"]


def test_a_loop_kept_busy_loses_nothing(make: Make) -> None:
    journal = make(flush_lines=8, queue_entries=200)
    log: EventLog = make_log(journal=journal)
    for _ in range(50):
        fill(log, 100)
        wait_until_unlooped(lambda: len(journal._queue) < 100)
        gevent.sleep(0)
    log.close()
    assert journal.health == "ok"
    assert sum(1 for one in load(journal.path) if one["type"] == "event") == 5000


def wait_until_unlooped(true: Callable[[], object]) -> None:
    """Let other threads run, but not the loop."""
    pause = threading.Event()
    for _ in range(2000):
        if true():
            return
        gevent.sleep(0)
        pause.wait(0.001)
    raise AssertionError("the writer's thread did not take what was queued")


def test_the_header_s_line_is_the_first(make: Make) -> None:
    journal = make(clock=ManualClock(START + 1_500_000_000))
    journal.note("session", {"providerSessionId": "p-1", "loadedFrom": "p-0"})
    journal.close()
    first, second, _ = list(load(journal.path))
    assert first["ts"] == "2026-01-01T00:00:01.5Z"
    assert (first["type"], first["incarnation"], first["cwd"]) == (
        "header", INCARNATION, "/home/me/app",
    )  # fmt: skip
    assert json.dumps(second, separators=(",", ":")) == (
        '{"ts":"2026-01-01T00:00:01.5Z","type":"session","providerSessionId":"p-1",'
        '"loadedFrom":"p-0"}'
    )


def test_its_own_notice_never_raises(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file in the folder's place")
    head = {"incarnation": INCARNATION, "cwd": "/"}
    journal = Journal(str(tmp_path / "journal"), head, ManualClock(START))
    journal.event(record(1))
    journal.close()
    assert journal.health == "failed"
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"craze: journal {journal.path}: ")
