"""The snapshot codec by hand: order and omission, item caps, the slash catalog, size, restoring."""

from typing import Any

import pytest

from craze.events import build
from craze.events.members import payload
from craze.transcript import SnapshotTooLarge, UnknownSubagent, caps, encode, restore, snapshot
from craze.wire import json
from tests.unit.transcript.folding import SLASH_ROW, Folding, minute

CAP = 262144
WHOLE = 8 << 20
LONG = "é" * (CAP // 2) + "x"
CUT = "é" * (CAP // 2)


def taken(folding: Folding, budget: int = WHOLE, agent: str = "") -> dict[str, Any]:
    made: dict[str, Any] = json.loads(encode(folding.model, budget, agent))
    return made


def again(folding: Folding, budget: int = WHOLE) -> Folding:
    """A folding that goes on from a snapshot of this one."""
    made = Folding()
    made.model = restore(taken(folding, budget))
    made.seq = folding.seq
    return made


def test_an_empty_session() -> None:
    assert encode(Folding().model, 100) == b'{"version":1,"incarnation":"log-1","main":{}}'


def test_every_member_stands_in_its_place() -> None:
    folding = Folding(
        build.meta({
            "title": "T", "mode": "plan", "model": "grok", "config": {"options": [{"id": "e"}]},
            "commands": {"commands": [{"name": "c"}]}, "plugins": {"plugins": [{"bare": "p"}]},
            "usage": {"contextTokens": 1}, "catalog": {"models": [], "revision": 1},
            "slash": {"items": [SLASH_ROW]},
        }),
        build.turn_started("turn-1", "hi", "submit"),
        build.meta({"sendNow": {"armed": True}}),
        build.subagent({"id": "sub-1", "status": "completed"}, "finished"),
        build.todos([{"content": "x"}]),
        build.opening("permission", {"id": "perm-1"}),
        build.opening("permission", {"id": "perm-2"}),
        build.ending({"id": "perm-1", "kind": "permission", "outcome": "cancelled", "by": "call"}),
        build.foreign_turn({"id": "wake-1"}),
        build.queue({"id": "q-1", "text": "next"}, "queued"),
        build.replay("start"),
        build.compaction("started", reason="auto"),
    )  # fmt: skip
    folding.model.fold(0, build.text("a"))
    document = taken(folding)
    main, subs = document.pop("main"), document.pop("subs")
    assert list(document) == [
        "version", "incarnation", "seq", "local", "finishSeq", "agents", "todos", "asks", "ended",
        "turn", "replaying", "settings", "queue",
    ]  # fmt: skip
    assert list(document["settings"]) == [
        "title", "mode", "model", "config", "commands", "plugins", "sendNow", "usage", "catalog",
        "slash",
    ]  # fmt: skip
    assert document["agents"] == [{"info": {"id": "sub-1", "status": "completed"}, "finish": 1}]
    assert document["asks"] == [
        {
            "id": "perm-2",
            "kind": "permission",
            "body": {"permission": {"id": "perm-2"}},
            "at": minute(7),
        }
    ]
    assert list(document["turn"]) == ["id", "text", "origin", "at", "foreign"]
    assert list(main) == ["streamOpen", "todoPlanned", "compacting", "entries"]
    assert subs == [{"id": "sub-1"}]


def test_a_compaction_and_a_bracket_are_there_even_when_they_say_nothing() -> None:
    folding = Folding()
    folding.model.fold(1, build.compaction("started"))
    folding.model.fold(2, build.foreign_turn({}))
    folding.model.fold(3, build.compaction("started"))
    document = taken(folding)
    assert document["main"]["compacting"] == {}
    assert document["turn"] == {"foreign": {}}


def test_a_snapshot_holds_no_last_turn() -> None:
    folding = Folding(build.turn_started("t", "", "submit"), build.turn_ended("t"))
    assert folding.model.last_turn is not None
    assert again(folding).model.last_turn is None
    assert b"outcome" not in encode(folding.model, WHOLE)


# ---- item caps ----


def test_what_is_over_the_item_cap_is_cut_to_its_head_and_marked() -> None:
    folding = Folding(
        build.subagent({"id": "sub-1", "prompt": LONG, "output": "ok"}, "spawned"),
        build.subagent({"id": "sub-2", "description": LONG}, "spawned"),
        build.todos([{"content": LONG}, {"content": "x"}]),
        build.opening("plan", {"id": "plan-1", "auto": True, "todos": [{"content": LONG}]}),
        build.turn_started("turn-1", LONG, "submit"),
        build.meta({"title": LONG, "mode": "m", "commands": {"commands": [{"name": LONG}]}}),
        build.queue({"id": "q-1", "text": "x"}, "queued"),
        build.queue({"id": "q-2", "text": LONG}, "queued", 1),
    )

    def check(document: dict[str, Any]) -> None:
        assert document["agents"][0]["info"] == {"id": "sub-1", "prompt": CUT, "output": "ok"}
        assert document["agents"][0]["truncated"] is True
        assert document["agents"][1]["info"]["description"] == LONG  # no cap on this one
        assert "truncated" not in document["agents"][1]
        assert document["todos"] == [{"content": CUT}, {"content": "x"}]
        assert document["todosTruncated"] is True
        assert document["asks"][0]["body"]["plan"]["todos"] == [{"content": CUT}]
        assert document["asks"][0]["truncated"] is True
        assert (document["turn"]["text"], document["turn"]["truncated"]) == (CUT, True)
        assert document["settings"]["title"] == CUT
        assert document["settings"]["commands"]["commands"][0]["name"] == CUT
        assert document["settings"]["truncated"] == {"title": True, "commands": True}
        assert [row["text"] for row in document["queue"]] == ["x", CUT]
        assert document["truncatedQueue"] == ["q-2"]
        # An entry is no item: the prompt's row is whole.
        assert document["main"]["entries"][1]["text"] == LONG

    check(taken(folding))
    restored = again(folding)
    check(taken(restored))  # the marks stay though nothing is cut any more
    restored.add(
        build.subagent({"id": "sub-1"}, "progress"),
        build.todos([{"content": "x"}]),
        build.ending({"id": "plan-1", "kind": "plan", "outcome": "automatic"}),
        build.turn_started("turn-2", "hi", "submit"),
        build.meta({"title": "T", "commands": {}}),
        build.queue({"id": "q-2", "text": "y"}, "edited"),
    )
    assert b'runcated"' not in encode(restored.model, WHOLE)


def test_a_sub_questions_own_id_and_the_keys_of_answers_are_not_cut() -> None:
    body = {
        "id": "ask-1",
        "questions": [{"id": LONG, "prompt": "p", "options": [{"id": "a", "label": "l"}]}],
        "answers": {LONG: ["a"]},
    }
    assert caps.ask_body("question", body) == (body, False)
    body["questions"][0]["options"][0]["label"] = LONG  # type: ignore[index]
    capped, cut = caps.ask_body("question", body)
    assert cut
    assert capped["questions"][0]["id"] == LONG
    assert capped["questions"][0]["options"] == [{"id": "a", "label": CUT}]
    capped, cut = caps.ask_body("question", {**body, "questions": [], "answers": {"q": [LONG]}})
    assert (capped["answers"], cut) == ({"q": [CUT]}, True)


def test_a_permissions_strings_are_cut() -> None:
    body = {"id": "p", "tool": LONG, "options": [{"optionId": LONG, "name": "n"}]}
    assert caps.ask_body("permission", body) == (
        {"id": "p", "tool": CUT, "options": [{"optionId": CUT, "name": "n"}]},
        True,
    )


# ---- the slash catalog ----


@pytest.mark.parametrize("member", ["name", "source", "plugin", "qualified", "requires"])
def test_a_slash_row_with_an_acting_string_over_the_cap_is_dropped(member: str) -> None:
    folding = Folding(build.meta({"slash": {"items": [{**SLASH_ROW, member: LONG}, SLASH_ROW]}}))
    settings = taken(folding)["settings"]
    assert settings == {"slash": {"items": [SLASH_ROW]}, "truncated": {"slash": True}}


def test_what_a_slash_row_runs_is_never_cut_and_what_it_shows_is() -> None:
    acting = {"name": "a", "description": "", "source": "x", "run": {"setting": {"value": LONG}}}
    showing = {
        "name": "b",
        "description": LONG,
        "source": "x",
        "run": {"kind": "prompt", "argHint": LONG, "reason": LONG},
    }
    folding = Folding(build.meta({"slash": {"items": [acting, showing]}}))
    settings = taken(folding)["settings"]
    assert settings["slash"]["items"] == [
        {
            "name": "b",
            "description": CUT,
            "source": "x",
            "run": {"kind": "prompt", "argHint": CUT, "reason": CUT},
        }
    ]
    assert settings["truncated"] == {"slash": True}
    restored = again(folding)
    assert taken(restored)["settings"] == settings
    restored.add(build.meta({"slash": {"items": [SLASH_ROW]}}))
    assert "truncated" not in taken(restored)["settings"]


def test_no_more_than_512_slash_rows_go_in() -> None:
    rows = [{**SLASH_ROW, "name": f"c{number}"} for number in range(513)]
    folding = Folding(build.meta({"slash": {"items": rows}}))
    settings = taken(folding)["settings"]
    assert settings["slash"]["items"] == rows[:512]
    assert settings["truncated"] == {"slash": True}


def test_the_slash_catalog_and_then_its_mark_yield_to_the_budget() -> None:
    slash = {"items": [{**SLASH_ROW, "name": f"c{number}"} for number in range(4)]}
    errors = (build.error("older"), build.error("newest"))
    folding = Folding(build.meta({"mode": "plan", "slash": slash}), *errors)
    required = Folding(build.meta({"mode": "plan"}), *errors)
    bare = next(budget for budget in range(1000) if _fits(required, budget))
    mark = len(b',"truncated":{"slash":true}')
    whole = len(b',"slash":') + len(json.dumps(slash))
    assert not _fits(folding, bare - 1)
    assert encode(folding.model, bare) == encode(required.model, bare)
    assert taken(folding, bare + mark - 1)["settings"] == {"mode": "plan"}
    marked = {"mode": "plan", "truncated": {"slash": True}}
    assert taken(folding, bare + mark)["settings"] == marked
    # Without the catalog, what it would have taken is there for the older entry.
    without, with_it = taken(folding, bare + whole - 1), taken(folding, bare + whole)
    assert (without["settings"], len(without["main"]["entries"])) == (marked, 2)
    assert with_it["settings"] == {"mode": "plan", "slash": slash}
    assert len(with_it["main"]["entries"]) == 1
    # A mark that came with a snapshot yields as well.
    restored = again(folding, bare + whole - 1)
    assert taken(restored)["settings"] == marked
    restored.model.main.entries.popleft()
    assert taken(restored, len(encode(restored.model, WHOLE)) - 1)["settings"] == {"mode": "plan"}


def _fits(folding: Folding, budget: int) -> bool:
    try:
        encode(folding.model, budget)
    except SnapshotTooLarge:
        return False
    return True


# ---- size ----


def test_a_snapshot_too_large_says_so() -> None:
    folding = Folding(build.error("x" * 1000))
    size = len(encode(folding.model, WHOLE))
    assert len(encode(folding.model, size)) == size
    with pytest.raises(SnapshotTooLarge) as failure:
        encode(folding.model, size - 1)
    assert str(failure.value) == "transcript: snapshot too large for its byte budget"


def test_an_unknown_subagent_says_so() -> None:
    with pytest.raises(UnknownSubagent) as failure:
        encode(Folding().model, WHOLE, "sub-9")
    assert str(failure.value) == (
        'transcript: no sub-agent "sub-9" in the model: agent: no such sub-agent'
    )


def test_a_row_without_a_transcript_asks_for_the_plain_snapshot() -> None:
    folding = Folding(build.subagent({"id": "sub-1"}, "spawned"), build.text("a"))
    del folding.model.subs["sub-1"]
    assert encode(folding.model, WHOLE, "sub-1") == encode(folding.model, WHOLE)


def test_the_sub_agent_asked_for_goes_before_the_older_entries() -> None:
    folding = Folding(build.error("x" * 600), build.error("newest"))
    for agent in ("sub-1", "sub-2"):
        folding.add(build.tool({"id": "t", "contentText": "y" * 200}, agent))
    full = len(encode(folding.model, WHOLE))

    def counts(budget: int, agent: str = "") -> list[int]:
        document = taken(folding, budget, agent)
        transcripts = (document["main"], *document["subs"])
        return [len(transcript.get("entries", ())) for transcript in transcripts]

    assert counts(full) == [2, 1, 1]
    assert counts(full - 1) == [2, 1, 0]
    assert counts(full - 1, "sub-2") == [2, 0, 1]
    assert counts(full - 400) == [2, 0, 0]
    # Its entry first: what is left is too little for the session's own older one.
    assert counts(full - 400, "sub-2") == [1, 1, 1]
    assert counts(full - 800, "sub-2") == [1, 0, 1]


def test_entries_are_encoded_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    folding = Folding(*(build.error("x" * 1000) for _ in range(500)))
    calls = []
    dumps = json.dumps
    monkeypatch.setattr(snapshot.json, "dumps", lambda value: calls.append(1) or dumps(value))
    whole = encode(folding.model, WHOLE)
    assert len(calls) < 20
    calls.clear()
    encode(folding.model, len(whole) // 2)
    assert len(calls) < 1200  # one batch's worth of single entries, at the budget's edge


def test_b59_a_lone_surrogate_and_line_separators_are_counted_as_they_are_written() -> None:
    folding = Folding(build.error("\ud800 \u2028 é" * 50), build.error("\ud800"))
    folding.model.fold(0, build.tool({"id": "\ud800"}))
    for budget in range(300, len(encode(folding.model, WHOLE)) + 1):
        if _fits(folding, budget):
            assert len(encode(folding.model, budget)) <= budget


# ---- restoring ----


def transcript(**main: Any) -> Folding:
    made = Folding()
    made.model = restore({"version": 1, "seq": 9, "main": main, "novelty": 1})
    made.seq = 9
    return made


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError) as failure:
        restore({"version": 2, "main": {}})
    assert str(failure.value) == "transcript: decode snapshot: version 2, this build reads 1"


@pytest.mark.parametrize(
    ("document", "member"),
    [
        ({"main": []}, "snapshot.main: expected an object, got a list"),
        ({"seq": "1"}, "snapshot.seq: expected an integer, got a string"),
        ({"main": {"omitted": [[]]}}, "snapshot.main: transcript.omitted: expected a ledger"),
        ({"main": {"omitted": [["x"]]}}, "expected an integer, got a string"),
        ({"main": {"entries": [{"at": "noon"}]}}, "not an RFC 3339 time"),
        ({"asks": [{"body": {"plan": 5}}]}, "askBody.plan: expected an object, got an integer"),
    ],
)
def test_a_malformed_snapshot_is_a_value_error_that_says_where(
    document: dict[str, Any], member: str
) -> None:
    with pytest.raises(ValueError) as failure:
        restore({"version": 1, **document})
    assert member in str(failure.value)


def test_an_entry_without_an_id_of_its_own_is_skipped() -> None:
    folding = transcript(
        entries=[
            {"id": "1.0", "kind": "note", "text": "a"},
            {"id": "1.0", "kind": "note", "text": "b"},
            {"id": "0.0", "kind": "note", "text": "c"},
            {"id": "x", "kind": "note", "text": "d"},
            {"kind": "note", "text": "e"},
            {"id": "0.1", "kind": "note", "text": "f"},
        ]
    )
    assert folding.rows() == [("note", "a"), ("note", "f")]


def test_only_the_open_last_entry_grows() -> None:
    entries = [
        {"id": "1.0", "kind": "thought", "text": "a", "open": True, "streaming": True},
        {"id": "2.0", "kind": "assistant", "text": "b", "streaming": True},
    ]
    closed = transcript(entries=entries)
    assert all("streaming" not in document for document in closed.documents())
    assert "open" not in closed.documents()[0]
    grown = transcript(streamOpen=True, entries=entries).add(build.text("c"))
    assert grown.rows() == [("thought", "a"), ("assistant", "bc")]
    assert transcript(streamOpen=True, entries=entries[:0]).main.run is None


def test_a_cut_run_goes_on_where_it_was() -> None:
    live = Folding(build.text("é" * 40_000))
    restored = again(live)
    assert taken(restored) == taken(live)
    for folding in (live, restored):
        folding.add(build.text("tail"), build.done("end_turn"))
    assert restored.documents() == live.documents()
    assert restored.main.size == live.main.size == 65536


def test_a_cut_text_that_is_too_long_is_not_cut() -> None:
    entry = {"id": "1.0", "kind": "assistant", "text": "x" * 70_000, "cut": True}
    folding = transcript(entries=[entry])
    assert "cut" not in folding.documents()[0]
    assert folding.main.size == 70_000
    entry["text"] = "…x"
    assert transcript(entries=[entry]).main.size == 65536


def test_a_tool_that_was_left_out_is_accounted_for_until_its_record_goes() -> None:
    folding = transcript(
        windowed=True,
        dropped=2,
        omitted=[[10, "t-1"], [20]],
        entries=[{"id": "5.0", "kind": "note", "text": "a"}],
    )
    folding.add(build.tool({"id": "t-1", "contentText": "x" * 100}))
    assert folding.rows() == [("note", "a")]
    assert folding.main.size == 103 + 20 + 1
    assert taken(folding)["main"]["omitted"] == [[103, "t-1"], [20]]
    folding.main._max_entries = 3
    folding.add(build.error("b"), build.tool({"id": "t-1"}))
    assert folding.main.trimmed
    assert folding.rows() == [("note", "a"), ("error", "b"), ("tool", "t-1")]
    document = taken(folding)["main"]
    assert "omitted" not in document
    assert (document["windowed"], document["dropped"]) == (True, 2)


def test_what_snapshots_left_out_adds_up() -> None:
    folding = transcript(
        windowed=True,
        dropped=3,
        omitted=[[5]],
        entries=[
            {"id": "5.0", "kind": "note", "text": "x" * 500},
            {"id": "6.0", "kind": "note", "text": "y"},
        ],
    )
    document = taken(folding, 300)["main"]
    assert (document["dropped"], document["omitted"]) == (4, [[5], [500]])


def test_a_run_that_was_left_out_grows_without_a_row_until_it_ends() -> None:
    live = Folding(build.error("main"), build.text("x" * 1000, "sub-1"))
    restored = again(live, 500)
    child = restored.model.subs["sub-1"]
    assert taken(live, 500)["subs"] == [
        {
            "id": "sub-1",
            "windowed": True,
            "dropped": 1,
            "streamOpen": True,
            "omittedRun": "assistant",
            "omitted": [[1000]],
        }
    ]
    restored.add(build.text("y" * 500, "sub-1"))
    assert child.documents() == [] and child.ledger[0] == [1500]
    restored.add(build.text("y" * 65536, "sub-1"))
    assert child.ledger[0] == [65536] and child.size == 65536
    assert taken(restored)["subs"][0]["omittedRun"] == "assistant"
    restored.add(build.thought("so", "sub-1"), build.text("new", "sub-1"))
    assert restored.rows("sub-1") == [("thought", "so"), ("assistant", "new")]
    assert "omittedRun" not in taken(restored)["subs"][0]


def test_restoring_trims_nothing() -> None:
    entries = [{"id": f"{n}.0", "kind": "note", "text": "x"} for n in range(1, 5101)]
    folding = transcript(entries=entries)
    assert len(folding.documents()) == 5100
    assert not folding.main.trimmed
    folding.add(payload_note())
    assert len(folding.documents()) == 5000


def payload_note() -> dict[str, Any]:
    return build.command({"pluginCommand": payload("pluginCommand", qualified="a:b")})
