"""Which sessions are saved, what a reopen loads, and that the two never disagree."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.hub import saved
from craze.machine import config
from craze.machine.config import Config
from craze.machine.index import Row
from craze.machine.paths import Paths
from craze.machine.registry import Entry
from craze.wire import schema
from craze.wire.limits import MIB, SAVED_RESULT


def settings(*own: str) -> Config:
    empty = config.load(Paths("/nowhere", "/nowhere/.craze"), {})
    return empty._replace(
        providers={name: config.Provider(name, ("agent",), name, {}) for name in own}
    )


SETTINGS = settings("codex")


def row(session: str = "p-1", at: str = "2026-10-12T10:00:00Z", **more: Any) -> Row:
    made = {"provider": "grok", "cwd": "/w", "createdAt": "2026-10-01T00:00:00Z"}
    return {**made, "sessionId": session, "updatedAt": at, **more}


def entry(**members: Any) -> Entry:
    return Entry(1, "0123456789ab", 1, "2026-01-01T00:00:00Z", "/s", **members)


def listed(rows: list[Row], *running: Entry, **args: Any) -> dict[str, Any]:
    data = saved.saved(rows, running, args, SETTINGS)
    assert len(data) <= SAVED_RESULT
    result: dict[str, Any] = json.loads(data)
    schema.check_result("sessions.saved", result)
    return result


def ids(rows: list[Row], *running: Entry, **args: Any) -> list[str]:
    return [session["id"] for session in listed(rows, *running, **args)["sessions"]]


# ---- the answer ----


def test_the_answer_member_by_member() -> None:
    rows = [
        row(
            "4f1e2d3c", "2026-10-11T12:00:00+02:00", cwd="/home/me/projects/lumen", title="",
            createdAt="2026-10-11T09:00:00.120Z",
        ),
        row(
            "7c1f9e2a", "2026-10-12T10:00:00Z", cwd="/home/me/projects/lumen", provider="cursor",
            crazeId="0190ab12", title="fix the <flaky> test", pinned=True, unattended=True,
            mode="ask", createdAt="2026-10-12T09:00:00.000Z", later={"x": 1},
        ),
    ]  # fmt: skip
    assert saved.saved(rows, [], {"subagents": True}, SETTINGS).decode() == (
        '{"sessions":['
        '{"id":"0190ab12","crazeSessionId":"0190ab12","provider":"cursor",'
        '"providerSessionId":"7c1f9e2a","workspace":"/home/me/projects/lumen",'
        '"title":"fix the <flaky> test","createdAt":"2026-10-12T09:00:00Z",'
        '"updatedAt":"2026-10-12T10:00:00Z","subagent":true},'
        '{"id":"grok:4f1e2d3c","provider":"grok","providerSessionId":"4f1e2d3c",'
        '"workspace":"/home/me/projects/lumen","createdAt":"2026-10-11T09:00:00.12Z",'
        '"updatedAt":"2026-10-11T10:00:00Z"}'
        '],"more":false}'
    )
    assert saved.saved([], [], {}, SETTINGS) == b'{"sessions":[],"more":false}'


def test_b71_a_title_of_any_craze_is_one_harmless_line() -> None:
    (session,) = listed([row(title="a\x1b]0;x\x07b\x9b2J\u202ec\nd " + "e" * 200)])["sessions"]
    assert session["title"] == "abc d " + "e" * 114
    assert "title" not in listed([row(title="\u200b\n")])["sessions"][0]
    assert "title" not in listed([row(title=["x"])])["sessions"][0]


# ---- which ----


def test_one_of_a_craze_id_its_newest_whatever_that_is() -> None:
    old, new = row("p-1", crazeId="c"), row("p-2", "2026-10-12T10:00:00.1Z", crazeId="c")
    (session,) = listed([new, old])["sessions"]
    assert session["providerSessionId"] == "p-2"
    for bad in ({"provider": "newer"}, {"provider": "native"}, {"cwd": "w"}, {"createdAt": "x"}):
        assert ids([old, {**new, **bad}]) == []
    assert ids([old, {**new, "crazeId": ""}]) == ["grok:p-2", "c"]


def test_rows_without_a_craze_id_are_each_their_own() -> None:
    rows = [row("p-1"), row("p-2"), row("p-1", provider="cursor")]
    assert ids(rows) == ["cursor:p-1", "grok:p-1", "grok:p-2"]


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ([entry(crazeSessionId="c-1")], ["c-2", "grok:p-3"]),
        ([entry(provider="grok", providerSessionId="p-2")], ["c-1", "grok:p-3"]),
        # Another craze directory's index gave the same provider's session another craze id.
        (
            [entry(crazeSessionId="c-9", provider="grok", providerSessionId="p-3")],
            ["c-1", "c-2"],
        ),
        ([entry(provider="cursor", providerSessionId="p-2")], ["c-1", "c-2", "grok:p-3"]),
        ([entry(crazeSessionId="c-1", stopping=True)], ["c-1", "c-2", "grok:p-3"]),
        ([entry()], ["c-1", "c-2", "grok:p-3"]),
        ([entry(crazeSessionId="c-1"), entry(crazeSessionId="c-2")], ["grok:p-3"]),
    ],
)
def test_running_sessions_are_left_out(entries: list[Entry], left: list[str]) -> None:
    rows = [row("p-1", crazeId="c-1"), row("p-2", crazeId="c-2"), row("p-3")]
    assert ids(rows, *entries) == left


def test_a_running_newest_row_is_not_replaced_by_an_older_one() -> None:
    rows = [row("p-1", crazeId="c"), row("p-2", "2026-10-12T11:00:00Z", crazeId="c")]
    assert ids(rows, entry(provider="grok", providerSessionId="p-2")) == []


def test_filters_and_order() -> None:
    rows = [
        row("b", "2026-10-12T10:00:00.0Z"),
        row("a", "2026-10-12T12:00:00+02:00"),
        row("c", "2026-10-12T10:00:00.000000001Z", cwd="/w/"),
        row("d", "2026-10-13T00:00:00Z", unattended=True),
    ]
    assert ids(rows) == ["grok:c", "grok:a", "grok:b"]
    assert ids(rows, subagents=False) == ["grok:c", "grok:a", "grok:b"]
    assert ids(rows, subagents=True) == ["grok:d", "grok:c", "grok:a", "grok:b"]
    assert ids(rows, workspace="/w") == ["grok:a", "grok:b"]
    assert ids(rows, workspace="/w", subagents=True) == ["grok:d", "grok:a", "grok:b"]
    assert ids(rows, workspace="/") == []


def test_the_limit_comes_last() -> None:
    rows = [row(f"p-{n:03}", unattended=n % 2 == 1) for n in range(120)]
    result = listed(rows)
    assert (len(result["sessions"]), result["more"]) == (50, True)
    for limit, more in ((1, True), (59, True), (60, False), (200, False)):
        result = listed(rows, limit=limit)
        assert (len(result["sessions"]), result["more"]) == (min(limit, 60), more)
    assert listed(rows, limit=200, subagents=True)["more"] is False
    assert listed(rows[:1], limit=1)["more"] is False


def test_the_result_is_cut_to_the_byte() -> None:
    rows = [row(f"p-{n:03}", cwd="/" + "\x01" * 4095) for n in range(42)]

    def result(spare: int) -> bytes:
        last = row("q", "2020-01-01T00:00:00Z", cwd="/" + "\x01" * 1500 + "x" * spare)
        return saved.saved([*rows, last], [], {}, SETTINGS)

    room = MIB - len(result(0))
    assert 0 < room < 2000 and len(result(room)) == MIB
    fits, over = json.loads(result(room)), json.loads(result(room + 1))
    assert (len(fits["sessions"]), fits["more"]) == (43, False)
    assert (len(over["sessions"]), over["more"]) == (42, True)


# ---- what a reopen takes ----


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"provider": "native"}, 'provider "native"'),
        ({"provider": "gone", "cwd": "w"}, 'provider "gone"'),
        ({"provider": 'x"\x1b[2J'}, r'provider "x\"\x1b[2J"'),
        ({"crazeId": "a:b"}, ""),
        ({"crazeId": "x" * 129}, ""),
        ({"crazeId": ".."}, ""),
        ({"sessionId": "s" * 508}, ""),  # and "grok:" before it
        ({"crazeId": "c", "sessionId": "é" * 257}, ""),
        ({"sessionId": "\ud800"}, ""),
        ({"cwd": "w"}, ""),
        ({"cwd": "~/w"}, ""),
        ({"cwd": "/" + "é" * 2048}, ""),
        ({"updatedAt": "9999-12-31T23:59:59-01:00"}, ""),
        ({"updatedAt": "0001-01-01T00:00:00+01:00"}, ""),
        ({"createdAt": "9999-12-31T23:59:59-00:01"}, ""),
        ({"createdAt": "yesterday"}, ""),
        ({"createdAt": 5}, ""),
        ({"createdAt": None}, ""),
    ],
)
def test_what_cannot_be_resumed_is_neither_listed_nor_reopened(
    bad: dict[str, Any], why: str
) -> None:
    made = {**row(), **bad}
    text = f"that session's {why} is not one this craze can resume" if why else saved.MALFORMED
    assert saved.resumable(made, SETTINGS) == text
    assert ids([made]) == []


@pytest.mark.parametrize(
    "good",
    [
        {"provider": "cursor"},
        {"provider": "gx"},
        {"provider": "codex"},
        {"crazeId": "x" * 128},
        {"sessionId": "s" * 507},
        {"crazeId": "c", "sessionId": "é" * 256},
        {"cwd": "/" + "é" * 2047},
        {"cwd": "/gone\x1b[2J"},
        {"updatedAt": "9999-12-31T23:59:59Z"},
        {"createdAt": "0001-01-01T00:00:00Z"},
    ],
)
def test_what_can_be(good: dict[str, Any]) -> None:
    made = {**row(), **good}
    assert saved.resumable(made, SETTINGS) == ""
    assert ids([made]) == [saved.id_of(made)]


def test_a_provider_of_the_users_own_is_resumed_while_it_is_configured() -> None:
    made = row(provider="codex")
    assert saved.resumable(made, settings()).startswith('that session\'s provider "codex" is not')


def test_the_row_of_an_id() -> None:
    old = row("a:b", crazeId="c")
    new = row("p-2", "2026-10-13T00:00:00Z", crazeId="c")
    legacy = row("p-3")
    rows = [new, old, legacy]
    assert saved.resolve(rows, "c") is new
    assert saved.resolve(rows, "grok:a:b") is new  # it has a craze id by now
    assert saved.resolve(iter(rows), "grok:p-3") is legacy
    for id in ("", "p-3", "cursor:p-3", "grok:", "grok:p-9", ":", "C"):
        assert saved.resolve(rows, id) is None


# ---- reading ----


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    os.makedirs(tmp_path / ".craze")
    return Paths(str(tmp_path), str(tmp_path / ".craze"))


def test_an_index_that_cannot_be_read_is_said_once(paths: Paths) -> None:
    said: list[str] = []
    assert saved.read(paths, said.append) == [] and said == []
    Path(paths.index).write_text(json.dumps(row()) + "\n{\n" + json.dumps(row("p-2")) + "\n")
    assert saved.read(paths, said.append) == []
    assert len(said) == 1
    assert said[0].startswith(f"the session index cannot be read: {paths.index}:2: ")


def test_b73_an_index_cut_anywhere_in_its_last_line_lists_the_rest(paths: Paths) -> None:
    kept, last = json.dumps(row()) + "\n", json.dumps(row("p-2", title="é"), ensure_ascii=False)
    said: list[str] = []
    for cut in range(len(last.encode())):
        Path(paths.index).write_bytes(kept.encode() + last.encode()[:cut])
        assert ids(saved.read(paths, said.append)) == ["grok:p-1"]
    assert said == []


# ---- laws ----

TIMES = [f"2026-01-01T00:00:0{n}Z" for n in range(4)] + ["9999-12-31T23:59:59-01:00"]


@st.composite
def indexes(draw: Callable[..., Any]) -> list[Row]:
    rows = {}
    for _ in range(draw(st.integers(0, 12))):
        made = row(
            draw(st.sampled_from(["a", "b", "c", "d", "e"])),
            draw(st.sampled_from(TIMES)),
            provider=draw(st.sampled_from(["cursor", "grok", "native", "newer"])),
            cwd=draw(st.sampled_from(["/w", "/v", "w", "/" + "\x01" * 4000])),
        )
        for name, value in (("crazeId", draw(st.sampled_from(["", "x", "y", "a:b"]))),
                            ("unattended", draw(st.booleans()))):  # fmt: skip
            if value:
                made[name] = value
        rows[made["provider"], made["sessionId"]] = made  # as the index keeps them
    return list(rows.values())


ENTRIES = st.lists(
    st.builds(
        entry,
        crazeSessionId=st.sampled_from(["", "x", "y"]),
        provider=st.sampled_from(["", "grok", "cursor"]),
        providerSessionId=st.sampled_from(["", "a", "b"]),
        stopping=st.booleans(),
    ),
    max_size=2,
)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "workspace": st.sampled_from(["/w", "/v"]),
        "limit": st.integers(1, 5),
        "subagents": st.booleans(),
    },
)


@given(indexes(), ENTRIES, ARGS)
def test_what_is_listed_is_what_a_reopen_would_load(
    rows: list[Row], running: list[Entry], args: dict[str, Any]
) -> None:
    result = listed(rows, *running, **args)
    found = [session["id"] for session in result["sessions"]]
    assert len(set(found)) == len(found) <= args.get("limit", 50)
    crazes = [session.get("crazeSessionId", id(session)) for session in result["sessions"]]
    assert len(set(crazes)) == len(crazes)

    # The whole choice again, from the side of the ids.
    wanted = []
    for id_ in {saved.id_of(one) for one in rows}:
        one = saved.resolve(rows, id_)
        if one is None or saved.id_of(one) != id_ or saved.resumable(one, SETTINGS):
            continue
        held = any(
            not host.stopping
            and (
                host.crazeSessionId == one.get("crazeId")
                or (host.provider, host.providerSessionId) == (one["provider"], one["sessionId"])
            )
            for host in running
        )
        other = args.get("workspace", one["cwd"]) != one["cwd"]
        hidden = one.get("unattended") is True and not args.get("subagents")
        if not (held or other or hidden):
            wanted.append(one)
    wanted.sort(key=lambda one: (one["updatedAt"], [-ord(c) for c in saved.id_of(one)]))
    newest = [saved.id_of(one) for one in reversed(wanted)]
    assert found == newest[: len(found)]
    assert result["more"] == (len(found) < len(newest))


@given(
    st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 120)), max_size=120),
    st.integers(1, 200),
    st.sampled_from(["\x01", "é", "\u2028", "x"]),
)
def test_the_result_never_passes_its_bound_and_says_when_it_is_cut(
    sizes: list[tuple[int, int]], limit: int, char: str
) -> None:
    rows = [
        row(f"p-{n}", cwd=("/" + char * long)[: 4096 // len(char.encode())], title="t" * title)
        for n, (long, title) in enumerate(sizes)
    ]
    result = listed(rows, limit=limit)
    assert result["more"] == (len(result["sessions"]) < len(rows))
