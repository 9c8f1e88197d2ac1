"""Random histories: a restored session goes on as the one it was taken from, and a window is
exactly what a window has to be."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craze.events import codec
from craze.transcript import Model, SnapshotTooLarge, encode, restore, snapshot
from craze.transcript.entries import Transcript
from craze.wire import json, schema
from tests.unit.transcript.folding import SMALL, folded, histories

WHOLE = 8 << 20


def encoded_within(model: Model, budget: int) -> bytes:
    """The snapshot within the budget, or the whole one where that is too little."""
    try:
        return encode(model, budget)
    except SnapshotTooLarge:
        return encode(model, WHOLE)


def header(model: Model) -> dict[str, Any]:
    made = json.loads(encode(model, WHOLE))
    del made["main"]
    made.pop("subs", None)
    return made


def assert_follows(restored: Transcript, live: Transcript) -> None:
    """`restored` holds the newest of what `live` holds, and accounts for the rest of it alike."""
    kept = restored.documents()
    assert kept == live.documents()[len(live.entries) - len(kept) :]
    assert len(restored.ledger) + len(kept) == len(live.ledger) + len(live.entries)
    assert restored.size == live.size
    for name in ("trimmed", "todo_planned", "todo_done", "compacting"):
        assert getattr(restored, name) == getattr(live, name), name
    assert (restored.run is None) == (live.run is None)
    if restored.run is not None and live.run is not None:
        assert restored.run.kind == live.run.kind


@given(histories(), st.integers(0, 40), st.integers(200, 3000))
@settings(deadline=None)
def test_a_restored_session_folds_on_as_the_live_one(
    history: list[tuple[int, Any]], cut: int, budget: int
) -> None:
    given_events = copy.deepcopy(history)
    live = folded(history[:cut], Model("log-1", bounds=SMALL))
    taken = encoded_within(live, budget)
    had_slash = "slash" in live.settings
    restored = restore(json.loads(taken), bounds=SMALL)
    folded(history[cut:], live)
    folded(history[cut:], restored)
    restated = any("slash" in event.get("state", {}) for _, event in history[cut:])
    if had_slash and "slash" not in json.loads(taken).get("settings", {}) and not restated:
        # The catalog gave way to the budget, and no later delta has brought it back.
        live.settings.pop("slash")
        restored.cut_sections.discard("slash")
    assert header(restored) == header(live)
    assert list(restored.subs) == list(live.subs)
    assert_follows(restored.main, live.main)
    for agent, sub in restored.subs.items():
        assert_follows(sub, live.subs[agent])
    assert history == given_events  # no event was changed


@given(histories(), st.integers(200, 3000))
@settings(deadline=None)
def test_a_snapshot_of_what_a_snapshot_restored_is_the_same(
    history: list[tuple[int, Any]], budget: int
) -> None:
    taken = encoded_within(folded(history, Model("log-1", bounds=SMALL)), budget)
    assert encode(restore(json.loads(taken), bounds=SMALL), WHOLE) == taken


def plainly(model: Model, budget: int, agent: str) -> bytes | None:
    """The window by the letter: one entry at a time, the whole encoded and measured each time."""
    whole = json.loads(encode(model, WHOLE))
    slash = whole.get("settings", {}).get("slash")
    transcripts = {"": model.main, **model.subs}
    taken = dict.fromkeys(transcripts, 0)
    taken[""] = min(1, len(model.main.entries))

    def document(attempt: int) -> bytes:
        made = copy.deepcopy(whole)
        if attempt and slash:
            del made["settings"]["slash"]
            if attempt == 1:
                made["settings"].setdefault("truncated", {})["slash"] = True
            if not made["settings"]:
                del made["settings"]
        made["main"] = window(model.main, whole["main"], taken[""])
        if "subs" in made:
            made["subs"] = [
                window(model.subs[sub["id"]], sub, taken[sub["id"]]) for sub in whole["subs"]
            ]
        return json.dumps(made)

    attempt = next((it for it in range(3) if len(document(it)) <= budget), None)
    if attempt is None:
        return None
    for name in sorted(transcripts, key=lambda name: name != agent):
        while taken[name] < len(transcripts[name].entries):
            taken[name] += 1
            if len(document(attempt)) > budget:
                taken[name] -= 1
                break
    return document(attempt)


def window(held: Transcript, whole: dict[str, Any], taken: int) -> dict[str, Any]:
    left_out = len(held.entries) - taken
    made = dict(whole)
    if left_out:
        records = [
            [entry.size, entry["tool"]["id"]] if entry.get("tool", {}).get("id") else [entry.size]
            for entry in held.entries
        ]
        made["windowed"], made["dropped"] = True, left_out
        made["omitted"] = records[:left_out]
        made["entries"] = whole["entries"][left_out:]
        if not taken:
            del made["entries"]
            made.pop("tailCut", None)
            if held.run is not None:
                made["omittedRun"] = held.run.kind
    order = (
        "id", "trimmed", "windowed", "dropped", "streamOpen", "tailCut", "todoPlanned", "todoDone",
        "omittedRun", "compacting", "omitted", "entries",
    )  # fmt: skip
    return {name: made[name] for name in order if name in made}


@given(
    histories(),
    st.integers(100, 4000),
    st.sampled_from(("", "sub-1", "sub-2")),
    st.sampled_from((1, 400, 1 << 18)),
)
@settings(deadline=None)
def test_a_window_is_the_newest_entries_that_fit_and_none_skipped(
    history: list[tuple[int, Any]], budget: int, agent: str, batch: int
) -> None:
    model = folded(history, Model("log-1", bounds=SMALL))
    if agent not in model.subs:
        agent = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_BATCH_BYTES", batch)
        expected = plainly(model, budget, agent)
        if expected is None:
            with pytest.raises(SnapshotTooLarge):
                encode(model, budget, agent)
        else:
            assert len(expected) <= budget
            assert encode(model, budget, agent) == expected


@given(histories(20), st.integers(200, 3000))
@settings(deadline=None, max_examples=40)
def test_a_snapshot_is_what_the_schema_says_and_an_event_reads_back_as_written(
    history: list[tuple[int, Any]], budget: int
) -> None:
    for _, event in history:
        if event["type"] != "novelty":
            assert json.dumps(codec.check(json.loads(json.dumps(event)))) == json.dumps(event)
    taken = encoded_within(folded(history, Model("log-1", bounds=SMALL)), budget)
    schema.validator("snapshot").validate(json.loads(taken))
