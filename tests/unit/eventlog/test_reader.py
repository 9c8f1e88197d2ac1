"""Reading journals: lines, torn tails, gaps, malformed files, and files larger than memory."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.eventlog import Record, ReplayFailed, lines
from craze.eventlog.reader import Replay, load, read

from .helpers import AT, INCARNATION, body, events, gap, header, record, write


def seqs(path: str, low: int, high: int, end: int | None = None) -> list[int]:
    return [one.seq for one in read(path, low, high, INCARNATION, end)]


def failure(path: str, low: int, high: int, end: int | None = None) -> str:
    with pytest.raises(ReplayFailed) as failed:
        seqs(path, low, high, end)
    return failed.value.reason


def test_the_lines_as_they_are_written() -> None:
    assert header(pid=7, force=True, mode="plan").decode() == (
        '{"ts":"2026-01-01T00:00:00Z","type":"header","format":1,"eventCodec":1,'
        '"incarnation":"I-1","crazeVersion":"","os":"","arch":"","provider":"","agentBinary":"",'
        '"cwd":"/w","force":true,"interactive":false,"mode":"plan","pid":7}\n'
    )
    assert lines.event(record(3)) == (
        b'{"ts":"2026-01-01T00:00:00Z","type":"event","seq":3,"at":"2026-01-01T00:00:00Z",'
        b'"eventType":"text","event":' + body() + b"}\n"
    )
    big = Record(4, "text", AT, b"", {"reason": "oversized", "bytes": 9})
    assert lines.event(big) == (
        b'{"ts":"2026-01-01T00:00:00Z","type":"event","seq":4,"at":"2026-01-01T00:00:00Z",'
        b'"eventType":"text","omitted":{"reason":"oversized","bytes":9}}\n'
    )
    assert gap(5, 6).decode() == (
        '{"ts":"2026-01-01T00:00:00Z","type":"gap","fromSeq":5,"toSeq":6,"droppedEvents":2,'
        '"droppedNotes":0,"error":"journal queue full"}\n'
    )
    notes = lines.Gap(AT)
    notes.add(0)
    assert notes.line().decode() == (
        '{"ts":"2026-01-01T00:00:00Z","type":"gap","droppedEvents":0,"droppedNotes":1,'
        '"error":"journal queue full"}\n'
    )


@pytest.mark.parametrize(
    ("kind", "members", "written"),
    [
        ("session", {"providerSessionId": "p"}, '"providerSessionId":"p"'),
        (
            "prompt",
            {"kind": "prompt", "attempt": "prompt-1", "text": "hi"},
            '"attempt":"prompt-1","text":"hi","kind":"prompt"',
        ),
        ("prompt_end", {"attempt": "prompt-1"}, '"attempt":"prompt-1","durationMs":0'),
        (
            "prompt_end",
            {"durationMs": 5, "errMessage": "m", "errClass": "rpc", "attempt": "prompt-1"},
            '"attempt":"prompt-1","errClass":"rpc","errMessage":"m","durationMs":5',
        ),
        ("diag", {"kind": "closing", "fields": {}}, '"kind":"closing","fields":{}'),
    ],
)
def test_notes_as_they_are_written(kind: str, members: dict[str, Any], written: str) -> None:
    assert lines.note(AT, kind, members).decode() == (
        f'{{"ts":"{AT}","type":"{kind}",{written}}}\n'
    )


def test_a_note_that_nobody_knows_is_a_mistake() -> None:
    for kind, members in (("gap", {}), ("prompt", {"txt": ""}), ("header", {})):
        with pytest.raises(KeyError):
            lines.note(AT, kind, members)
    with pytest.raises(KeyError):
        lines.header(AT, {"incarnation": "I-1", "cwd": "/", "version": "1"})


def test_long_texts_are_cut_between_characters_and_said_to_be() -> None:
    prompt = json.loads(lines.note(AT, "prompt", {"text": "é" * 40_000}))
    assert (prompt["text"], prompt["truncated"]) == ("é" * 32_768, True)
    diag = json.loads(lines.note(AT, "diag", {"fields": {"line": "x" * 70_000, "n": 1}}))
    assert (len(diag["fields"]["line"]), diag["truncated"]) == (65_536, True)
    exact = json.loads(lines.note(AT, "prompt", {"text": "x" * 65_536}))
    assert "truncated" not in exact
    cut = json.loads(header(cwd="/" + "y" * 5000))
    assert len(cut["cwd"]) == 4096


@given(st.text(), st.text(max_size=5), st.integers(1, 2**63))
def test_a_record_comes_back_as_its_own_bytes(words: str, kind: str, seq: int) -> None:
    one = Record(seq, "text", AT, body(words))
    again = lines.read_event(lines.event(one)[:-1])
    assert (again.seq, again.type, again.at, again.body) == (seq, "text", AT, one.body)
    assert (again.size, again.omitted) == (one.size, None)


def test_an_omitted_record_comes_back_as_one(tmp_path: Path) -> None:
    omitted = {"reason": "encode_error", "error": "no"}
    path = write(
        tmp_path / "j", header(), events([1]), lines.event(Record(2, "tool", AT, b"", omitted))
    )
    found = list(read(path, 1, 2, INCARNATION))
    assert (found[1].omitted, found[1].body, found[1].type) == (omitted, b"", "tool")
    assert found[1].size == 2


def test_a_range_is_read_past_other_lines(tmp_path: Path) -> None:
    note = lines.note(AT, "diag", {"kind": "agent_stderr", "fields": {"line": '"seq":3'}})
    dropped_notes = lines.Gap(AT)
    dropped_notes.add(0)
    path = write(
        tmp_path / "j", header(), note, events([1, 2]), note, dropped_notes.line(), events([3]),
        note, events([4, 5]),
    )  # fmt: skip
    assert seqs(path, 2, 4) == [2, 3, 4]
    assert seqs(path, 5, 5) == [5]
    assert seqs(path, 3, 2) == []


def test_b73_a_journal_torn_at_every_byte_of_its_last_record(tmp_path: Path) -> None:
    start = header() + events([1, 2])
    last = events([3])
    for kept in range(len(last)):
        path = write(tmp_path / "j", start, last[:kept])
        assert [one["type"] for one in load(path)] == ["header", "event", "event"]
        assert seqs(path, 1, 2) == [1, 2]
        assert failure(path, 1, 3) == "journal_behind"
    path = write(tmp_path / "j", start, last)
    assert seqs(path, 1, 3) == [1, 2, 3]


def test_b73_a_journal_torn_at_every_byte_of_its_header(tmp_path: Path) -> None:
    start = header()
    for kept in range(len(start)):
        path = write(tmp_path / "j", start[:kept])
        assert list(load(path)) == []
        assert failure(path, 1, 1) == "journal_behind"


def test_nothing_past_the_complete_lines_one_was_told_of_is_read(tmp_path: Path) -> None:
    start = header() + events([1, 2])
    path = write(tmp_path / "j", start, events([3]), b"half a li")
    assert seqs(path, 1, 2, end=len(start)) == [1, 2]
    assert failure(path, 1, 3, end=len(start)) == "journal_behind"
    assert failure(path, 1, 3, end=len(start) + 5) == "journal_behind"


@pytest.mark.parametrize(
    ("low", "high", "reason"),
    [
        (1, 3, ""),
        (1, 4, "journal_gap"),
        (4, 4, "journal_gap"),
        (5, 8, "journal_gap"),
        (6, 6, "journal_gap"),
        (7, 9, ""),
        (7, 10, "journal_gap"),
        (12, 13, ""),
        (9, 13, "journal_gap"),
    ],
)
def test_b03_gaps_and_skipped_seqs_in_the_range(
    tmp_path: Path, low: int, high: int, reason: str
) -> None:
    path = write(
        tmp_path / "j",
        header(),
        events([1, 2, 3]),
        gap(4, 6),
        events([7, 8, 9]),
        events([12, 13]),  # 10 and 11 are nowhere
    )
    if reason:
        assert failure(path, low, high) == reason
    else:
        assert seqs(path, low, high) == list(range(low, high + 1))


BODY = body()
MALFORMED: dict[str, bytes] = {
    "not JSON": b"nonsense\n",
    "blank": b"\n",
    "an array": b"[1]\n",
    "no type": b"{}\n",
    "two fused": events([2])[:40] + events([2]),
    "seq no number": events([2]).replace(b'"seq":2', b'"seq":"2"'),
    "body cut": events([2])[:-3] + b"}\n",
    "body of another type": events([2]).replace(b'"eventType":"text"', b'"eventType":"tool"'),
    "body no object": events([2]).replace(BODY, b"[]"),
    "unclosed": events([2])[:-2] + b"\n",
    "invalid UTF-8": events([2]).replace(b'"x"', b'"\xff"'),
    "gap's ends": b'{"ts":"","type":"gap","fromSeq":"a","toSeq":2}\n',
    "once more": events([1]),
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_b03_a_malformed_file_is_evicted(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path / "j", header(), events([1]), line, events([3]))
    assert failure(path, 1, 3) == "evicted"


def test_a_record_before_the_range_may_be_anything_that_is_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "j", header(), events([1, 1, 2]), MALFORMED["body cut"], events([3]))
    assert seqs(path, 3, 3) == [3]


@pytest.mark.parametrize(
    "first",
    [
        header(incarnation="I-2"),
        header().replace(b'"format":1', b'"format":2'),
        header().replace(b'"eventCodec":1', b'"eventCodec":2'),
        events([1]),
        b"\x00\x00\n",
    ],
)
def test_b03_another_journal_is_evicted(tmp_path: Path, first: bytes) -> None:
    assert failure(write(tmp_path / "j", first, events([1])), 1, 1) == "evicted"


def test_b03_a_file_that_is_gone_or_no_file(tmp_path: Path) -> None:
    assert failure(str(tmp_path / "gone"), 1, 1) == "no_journal"
    assert failure(str(tmp_path), 1, 1) == "evicted"


def test_a_file_that_goes_away_between_two_pieces(tmp_path: Path) -> None:
    path = write(tmp_path / "j", header(), events(range(1, 10)))
    replay = Replay(path, 1, 9, INCARNATION, piece_bytes=1)
    assert [one.seq for one in replay.piece()] == [1]
    assert [one.seq for one in replay.piece()] == [2]
    os.unlink(path)
    with pytest.raises(ReplayFailed, match="no_journal"):
        replay.piece()


def test_lines_up_to_their_limit_and_over_it(tmp_path: Path) -> None:
    one = events([2], "x" * 300_000)
    path = write(tmp_path / "j", header(), events([1]), one, events([3]))

    def reason(limit: int) -> str:
        replay = Replay(path, 1, 3, INCARNATION, line_bytes=limit)
        try:
            while replay.piece():
                pass
        except ReplayFailed as failed:
            return failed.reason
        return ""

    assert reason(len(one) - 1) == ""  # the newline does not count
    assert reason(len(one) - 2) == "evicted"
    endless = write(tmp_path / "e", header(), events([1]), b"x" * 300_000)
    assert failure(endless, 1, 2) == "journal_behind"  # a torn tail, still short enough
    with pytest.raises(ReplayFailed, match="evicted"):
        replay = Replay(endless, 1, 2, INCARNATION, line_bytes=1000)
        while replay.piece():
            pass


def test_a_journal_of_another_kind_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        list(load(write(tmp_path / "j", b"nonsense\n")))
    with pytest.raises(FileNotFoundError):
        list(load(str(tmp_path / "gone")))


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> str:
    """24 MiB: events of every size with notes between them."""
    path = tmp_path_factory.mktemp("big") / "j"
    note = lines.note(AT, "diag", {"kind": "agent_stderr", "fields": {"line": "n" * 1000}})
    with path.open("wb") as file:
        file.write(header())
        for seq in range(1, 6001):
            file.write(events([seq], "x" * (7 * seq % 7000)))
            if seq % 5 == 0:
                file.write(note)
        file.write(events([6001], "y" * (1 << 20)))
        file.write(events(range(6002, 6011)))
    return str(path)


@pytest.mark.parametrize("low", [1, 2, 777, 3000, 5999, 6000, 6001, 6002, 6010])
def test_any_record_of_a_big_journal_is_found(big: str, low: int) -> None:
    high = min(low + 20, 6010)
    found = list(read(big, low, high, INCARNATION))
    assert [one.seq for one in found] == list(range(low, high + 1))


def measured(work: Callable[[], object]) -> int:
    """The most bytes that `work` held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_b75_a_big_journal_takes_little_memory(big: str) -> None:
    def all_of_it() -> None:
        assert sum(1 for _ in read(big, 1, 6000, INCARNATION)) == 6000

    assert os.path.getsize(big) > 20 << 20
    assert measured(all_of_it) < 3 << 20
    assert measured(lambda: sum(1 for _ in load(big))) < 12 << 20  # the largest line, parsed


def test_b75_the_end_of_a_big_journal_is_found_without_reading_it_all(
    big: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    pread = os.pread

    def counted(fd: int, count: int, offset: int) -> bytes:
        nonlocal taken
        data = pread(fd, count, offset)
        taken += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    assert seqs(big, 5990, 6000) == list(range(5990, 6001))
    assert taken < os.path.getsize(big) / 4


@given(st.data())
def test_bisection_finds_what_a_scan_finds(tmp_path_factory: Any, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 400), min_size=1, max_size=40))
    note = lines.note(AT, "diag", {"kind": "n", "fields": {}})
    made = [header()]
    for seq, size in enumerate(sizes, 1):
        made += [events([seq], "x" * size), note * (size % 3)]
    path = write(tmp_path_factory.mktemp("bisect") / "j", *made)
    low = data.draw(st.integers(1, len(sizes)))
    high = data.draw(st.integers(low, len(sizes)))
    replay = Replay(path, low, high, INCARNATION, piece_bytes=data.draw(st.integers(1, 2000)))
    found: list[int] = []
    while piece := replay.piece():
        found += [one.seq for one in piece]
    assert found == list(range(low, high + 1))
