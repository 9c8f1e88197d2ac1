import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from craze.machine import index, locks
from craze.machine.errors import MachineError
from craze.machine.index import Index, IndexBusy, Load, LoadRefused, Unattended
from craze.machine.paths import Paths, lock_beside

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND


def row(session: str = "p-1", at: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    return {"sessionId": session, "provider": "grok", "cwd": "/w", "updatedAt": at} | more


def line(**members: Any) -> str:
    return json.dumps(members) + "\n"


@pytest.fixture
def file(paths: Paths) -> Path:
    os.makedirs(paths.craze)
    return Path(paths.index)


@pytest.fixture
def saved(paths: Paths) -> Index:
    return Index(paths, sleep=lambda _: None)


# ---- reading ----


def test_no_file_is_no_rows(saved: Index) -> None:
    assert saved.rows() == []
    assert saved.find(Load(craze_id="x")) is None
    assert saved.newest("/w") is None


def test_the_last_row_of_a_key_wins(saved: Index, file: Path) -> None:
    other = row("p-2")
    rows = [row(title="old"), other, row(title="new"), row(provider="gx")]
    file.write_text("".join(line(**one) for one in rows))
    assert saved.rows() == [other, row(title="new"), row(provider="gx")]


def test_the_newest_row_of_a_craze_id_is_loaded(saved: Index, file: Path) -> None:
    old = row("p-1", "2026-01-01T00:00:01.9Z", crazeId="c")
    new = row("p-2", "2026-01-01T01:00:02+01:00", crazeId="c")
    file.write_text(line(**new) + line(**old) + line(**row("p-3")))
    assert saved.find(Load(craze_id="c")) == new
    assert saved.find(Load(provider="grok", session="p-1")) == old
    assert saved.find(Load(provider="gx", session="p-1")) is None
    assert saved.newest("/w") == new
    assert saved.newest("/w/") is None


BAD = [
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b"x" * 100,
    b"[" * 30_000,
    line(provider="grok", cwd="/w", updatedAt="2026-01-01T00:00:00Z").encode(),
    line(**row(cwd="")).encode(),
    line(**row(provider=1)).encode(),
    line(**row(at="yesterday")).encode(),
    line(**row(crazeId=1)).encode(),
    line(**row(x=float("nan"))).encode(),
    b'{"x":1e999}',
    b'{"x":' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("bad", BAD)
def test_one_bad_line_fails_the_whole_read_and_every_write(
    saved: Index, file: Path, bad: bytes
) -> None:
    good = line(**row()).encode()
    content = good + b"\n" + bad.rstrip(b"\n") + b"\n" + good
    file.write_bytes(content)
    with pytest.raises(MachineError, match=r"sessions\.jsonl:3: "):
        saved.rows()
    with pytest.raises(MachineError, match=r"sessions\.jsonl:3: "):
        saved.record("grok", "p-9", "/w", "c", NOW)
    assert file.read_bytes() == content


def test_a_row_that_can_be_read_and_not_written_again_fails_the_write(
    saved: Index, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row may be nested deeply enough for the one and too deeply for the other."""
    file.write_text(line(**row()) + "\n")
    before = file.read_bytes()

    def too_deep(*_: Any, **__: Any) -> str:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(json, "dumps", too_deep)
    with pytest.raises(MachineError, match="recursion depth"):
        saved.record("grok", "p-9", "/w", "c", NOW)
    assert file.read_bytes() == before


def test_b73_a_last_line_cut_anywhere_loses_itself_alone(saved: Index, file: Path) -> None:
    kept, last = row("p-1", title="é🎉"), row("p-2", title="é🎉")
    text = json.dumps(last, ensure_ascii=False).encode()
    for cut in range(len(text) + 1):
        file.write_bytes(line(**kept).encode() + text[:cut])
        assert saved.rows() == ([kept, last] if cut == len(text) else [kept])
        saved.record("grok", "p-3", "/w", "c", NOW)
        assert [one["sessionId"] for one in saved.rows()] == (
            ["p-1", "p-2", "p-3"] if cut == len(text) else ["p-1", "p-3"]
        )


def test_an_index_that_cannot_be_read(saved: Index, file: Path) -> None:
    file.mkdir()
    with pytest.raises(MachineError, match=r"sessions\.jsonl: is a directory"):
        saved.rows()


# ---- writing ----


def test_a_row_on_disk_is_as_the_tables_say(saved: Index, paths: Paths, umask: int) -> None:
    saved.record("grok", "p-1", "/w", "c-1", NOW, title="T é", source="fallback")
    file = Path(paths.index)
    assert file.read_text() == (
        '{"crazeId":"c-1","createdAt":"2026-09-21T14:13:20Z","cwd":"/w","pinned":false,'
        '"provider":"grok","sessionId":"p-1","title":"T \\u00e9",'
        '"updatedAt":"2026-09-21T14:13:20Z"}\n'
    )
    for path in (paths.index, lock_beside(paths.index)):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.lstat(paths.craze).st_mode) == 0o700


def test_a_renewed_row_keeps_what_it_does_not_know(saved: Index, file: Path) -> None:
    newer = {"mode": "ask", "parent": {"x": [1, 2.5, None, 2**70]}}
    file.write_text(line(**row(createdAt="2025-01-01T00:00:00Z", crazeId="c-0", **newer)))
    saved.record("grok", "p-1", "/w2", "c-1", NOW + 5)
    assert saved.rows() == [
        row(
            at="2026-09-21T14:13:20.000000005Z",
            **{"createdAt": "2025-01-01T00:00:00Z", "crazeId": "c-0", "cwd": "/w2", **newer},
        )
    ]


@pytest.mark.parametrize(
    ("there", "title", "source", "title_after", "pinned_after"),
    [
        ({}, "new", "none", None, None),
        ({}, "new", "fallback", "new", False),
        ({"title": ""}, "new", "fallback", "new", False),
        ({"title": "old"}, "new", "fallback", "old", None),
        ({"title": "old"}, "new", "agent", "new", False),
        ({"title": "old", "pinned": True}, "new", "agent", "old", True),
        ({"title": "old"}, "new", "user", "new", True),
        ({"title": "old", "pinned": True}, "new", "user", "new", True),
        ({"title": "old"}, "", "agent", "old", None),
    ],
)
def test_whose_title_counts(
    saved: Index, file: Path, there: dict[str, Any], title: str, source: str,
    title_after: str | None, pinned_after: bool | None,
) -> None:  # fmt: skip
    file.write_text(line(**row(**there)))
    saved.record("grok", "p-1", "/w", "c", NOW, title=title, source=source)
    (after,) = saved.rows()
    assert (after.get("title"), after.get("pinned")) == (title_after, pinned_after)


# ---- a session that nobody answers for ----


def test_an_unattended_sessions_row_says_how_to_start_it_again(saved: Index, file: Path) -> None:
    how = Unattended("plan", "prompt", "m-1", "high")
    saved.record("grok", "p-1", "/w", "c-1", NOW, unattended=how)
    saved.record("grok", "p-1", "/w", "c-1", NOW, title="T", source="fallback")
    assert file.read_text() == (
        '{"crazeId":"c-1","createdAt":"2026-09-21T14:13:20Z","cwd":"/w","effort":"high",'
        '"mode":"plan","model":"m-1","permissionMode":"prompt","pinned":false,'
        '"provider":"grok","sessionId":"p-1","title":"T","unattended":true,'
        '"updatedAt":"2026-09-21T14:13:20Z"}\n'
    )
    assert Unattended.read(saved.rows()[0]) == how


def test_what_it_was_not_started_with_is_not_in_its_row(saved: Index, file: Path) -> None:
    file.write_text(line(**row("p-1", mode="ask", model="old", effort="low", parent="c-0")))
    saved.record("grok", "p-1", "/w", "c", NOW, unattended=Unattended(permission_mode="bypass"))
    (after,) = saved.rows()
    assert after.keys() & {"mode", "model", "effort"} == set()
    assert (after["permissionMode"], after["unattended"], after["parent"]) == (
        "bypass",
        True,
        "c-0",
    )
    assert Unattended.read(after) == Unattended(permission_mode="bypass")


@pytest.mark.parametrize("said", [{}, {"unattended": False}, {"unattended": "true"}])
def test_a_persons_session(said: dict[str, Any]) -> None:
    assert Unattended.read(row(mode="plan", **said)) is None


def test_a_row_of_another_craze_is_read_as_far_as_it_can_be() -> None:
    there = row(unattended=True, mode={"id": "plan"}, model="m", effort=None)
    assert Unattended.read(there) == Unattended(model="m")


def test_at_most_500_rows_are_kept_the_oldest_going_first(saved: Index, file: Path) -> None:
    rows = [row(f"p-{n}", f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z") for n in range(500)]
    rows[7]["updatedAt"] = rows[3]["updatedAt"] = "2025-01-01T00:00:00Z"
    file.write_text("".join(line(**one) for one in rows))
    saved.record("grok", "new", "/w", "c", NOW)
    ids = [one["sessionId"] for one in saved.rows()]
    assert len(ids) == 500 and "p-3" not in ids and "p-7" in ids
    saved.record("grok", "newer", "/w", "c", NOW)
    ids = [one["sessionId"] for one in saved.rows()]
    assert len(ids) == 500 and "p-7" not in ids and ids[-2:] == ["new", "newer"]


def test_the_first_minted_id_wins(saved: Index, file: Path) -> None:
    file.write_text(line(**row("p-1")) + line(**row("p-2")))
    old = saved.rows()[0]
    assert saved.mint(old, "first") == "first"
    assert saved.mint(old, "second") == "first"
    assert [one.get("crazeId") for one in saved.rows()] == ["first", None]


def test_a_row_that_went_meanwhile(saved: Index, file: Path) -> None:
    file.write_text(line(**row("p-1")))
    with pytest.raises(IndexBusy) as changed:
        saved.mint(row("gone"), "c")
    assert str(changed.value) == "craze: the session index changed — try again"


def test_a_writer_is_waited_for_two_seconds(paths: Paths, file: Path) -> None:
    slept: list[float] = []
    with locks.take(lock_beside(paths.index)), pytest.raises(IndexBusy) as busy:
        Index(paths, sleep=slept.append).record("grok", "p-1", "/w", "c", NOW)
    assert str(busy.value) == "craze: the session index is busy — try again"
    assert sum(slept) == pytest.approx(2)
    assert not file.exists()


def test_a_full_disk_loses_nothing(
    saved: Index, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(line(**row()))
    before = file.read_bytes()

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(MachineError, match="no space left"):
        patched.setattr(os, "write", full)
        saved.record("grok", "p-2", "/w", "c", NOW)
    assert file.read_bytes() == before
    assert sorted(os.listdir(file.parent)) == ["sessions.jsonl", "sessions.jsonl.lock"]


# ---- loading ----


def test_what_a_load_finds(saved: Index, file: Path, root: Path) -> None:
    there = row("p-1", crazeId="c-1", cwd=str(root))
    gone = row("p-2", crazeId="c-2", cwd=f"{root}/gone")
    file.write_text(line(**there) + line(**gone))
    assert index.find_load(saved, Load(craze_id="c-1")) == there
    assert index.find_load(saved, Load(provider="grok", session="p-1"), str(root)) == there


@pytest.mark.parametrize(
    ("load", "workspace", "text", "code"),
    [
        (Load(craze_id="c-9"), "", "no session c-9", 1),
        (Load(provider="gx", session="p-1"), "", "no session p-1 for provider gx", 1),
        (
            Load(craze_id="c-1"), "/other",
            "--load names a session that ran in /gone, not in --workspace /other", 2,
        ),
        (
            Load(craze_id="c-1"), "/gone",
            "that session ran in /gone, which is no longer a directory", 1,
        ),
    ],
)  # fmt: skip
def test_why_a_load_is_refused(
    saved: Index, file: Path, load: Load, workspace: str, text: str, code: int
) -> None:
    file.write_text(line(**row("p-1", crazeId="c-1", cwd="/gone")))
    with pytest.raises(LoadRefused) as refused:
        index.find_load(saved, load, workspace)
    assert (str(refused.value), refused.value.exit) == (text, code)
