"""Frames as JSON, and the reasons that end a lane for good."""

import pytest

from craze_shed.contract import frames
from craze_shed.contract.codec import ContractError
from craze_shed.contract.rows import FeedMessage

EXAMPLES = [
    b'{"kind":"reset","reason":"connect","generation":1}',
    b'{"kind":"message","message":{"seq":1,"ts":"2026-01-01T00:00:00Z","role":"user","type":"text",'
    b'"text":"hi"}}',
    b'{"kind":"approval","approval":{"id":"perm-1","session_id":"0123456789ab","kind":"permission",'
    b'"status":"pending","title":"Run `git push`","options":[{"id":"a1","label":"Yes",'
    b'"kind":"allow_once"}],"questions":[],"request_json":"{\\"id\\":\\"perm-1\\"}"}}',
    b'{"kind":"capabilities","capabilities":{"kind":"craze","interject":true,"cancel":true,'
    b'"approvals":true,"history_cursor":true,"settings":true,"stop":false}}',
    b'{"kind":"stale","reason":"reconnecting"}',
    b'{"kind":"ready","generation":1}',
    b'{"kind":"down","reason":"session_closed"}',
    b'{"kind":"session","session":{"id":"i","title":"","cwd":"/","activity":"idle",'
    b'"pending_approvals":0,"approximate":false}}',
    b'{"kind":"settings","settings":{"model":"m","models":[{"id":"m","name":"M","rank":1}],'
    b'"modes":[],"options":[],"usage":{"context_tokens":1,"context_window":2}}}',
    b'{"kind":"slash_catalog","items":[{"name":"exit","description":"End this session",'
    b'"source":"builtin","requires":"stop","whileWorking":true,'
    b'"run":{"kind":"method","method":"session.stop"}}],"aside":false}',
]
SOURCE_EXAMPLES = [
    b'{"kind":"reset","reason":"connect","generation":1}',
    b'{"kind":"session","session":{"id":"i","title":"","cwd":"/","activity":"idle",'
    b'"pending_approvals":0,"approximate":false}}',
    b'{"kind":"removed","session_id":"i"}',
    b'{"kind":"capabilities","capabilities":{"kind":"craze","create":true,"create_options":true,'
    b'"create_title":false,"reopen":false}}',
    b'{"kind":"ready","generation":1,"truncated":false}',
    b'{"kind":"offline","reason":"gone","cause":"unreachable"}',
]


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text[:24].decode())
def test_a_lane_frame_is_written_as_it_was_read(text):
    assert frames.encode(frames.decode_lane(text)) == text


@pytest.mark.parametrize("text", SOURCE_EXAMPLES, ids=lambda text: text[:24].decode())
def test_a_source_frame_is_written_as_it_was_read(text):
    assert frames.encode(frames.decode_source(text)) == text


def test_every_kind_has_an_example():
    assert {frames.decode_lane(text).kind for text in EXAMPLES} == set(frames.LANE_FRAMES)
    assert {frames.decode_source(text).kind for text in SOURCE_EXAMPLES} == set(
        frames.SOURCE_FRAMES
    )


def test_a_frame_of_a_kind_that_is_not_known_is_unknown_and_never_sent():
    for frame in (
        frames.decode_lane(b'{"kind":"weather","reason":3}'),
        frames.decode_source(b'{"kind":"message"}'),
        frames.decode_lane(b'{"kind":"unknown"}'),
    ):
        assert frame.kind == "unknown"
        with pytest.raises(ValueError, match="a frame of unknown kind is never sent"):
            frames.encode(frame)


@pytest.mark.parametrize("text,problem", [
    (b"{}", "LaneFrame.kind: missing"),
    (b'{"kind":null}', "LaneFrame.kind: expected a string, got null"),
    (b"[]", "LaneFrame: expected an object, got a list"),
    (b'{"kind":"reset","reason":"r"}', "Reset.generation: missing"),
    (b'{"kind":"ready","generation":-1}',
        "Ready.generation: expected an integer of 0 to 18446744073709551615, got -1"),
    (b'{"kind":"session","session":[]}', "Session.session: expected an object, got a list"),
    (b'{"kind":"slash_catalog","items":{}}',
        "SlashCatalog.items: expected a list, got an object"),
])  # fmt: skip
def test_a_known_frame_that_is_malformed_is_an_error(text, problem):
    with pytest.raises(ContractError) as caught:
        frames.decode_lane(text)
    assert str(caught.value) == problem


def test_what_is_not_json_is_an_error():
    with pytest.raises(ValueError):
        frames.decode_lane(b"{")


def test_a_row_inside_a_frame_is_forgiven_everything():
    for row in (b"7", b'{"seq":"x"}'):
        frame = frames.decode_lane(b'{"kind":"message","message":%b}' % row)
        assert frame == frames.Message(FeedMessage())


def test_newer_fields_are_ignored():
    assert frames.decode_lane(b'{"kind":"stale","reason":"r","since":1}') == frames.Stale("r")


@pytest.mark.parametrize("cause,word", [
    (b'"too_old"', "too_old"), (b'"haunted"', "haunted"), (b"{}", "{}"), (b"null", "null"),
    (b'[1, "a"]', '[1,"a"]'),
])  # fmt: skip
def test_any_cause_is_kept_as_a_word(cause, word):
    frame = frames.decode_source(b'{"kind":"offline","reason":"r","cause":%b}' % cause)
    assert frame == frames.SourceOffline("r", word)


@pytest.mark.parametrize("reason,final", [
    ("unknown_session", True), ("session_closed", True), ("session_gone", True),
    ("hub_gone", True), ("host_removed", True), ("start_failed", True),
    ("start_failed:no key", True), ("start_failed: no key", True), ("start_failed:", True),
    ("start_failed_again", False), ("unreachable", False), ("re-attach bound", False),
    ("connect refused: unavailable/busy", False), ("protocol: plural", False),
    ("craze unavailable: too old", False), ("", False), ("session_closed ", False),
])  # fmt: skip
def test_which_reasons_are_final(reason, final):
    assert frames.is_final(reason) is final


def test_a_failed_start_names_its_cause():
    assert frames.start_failed("no key") == "start_failed:no key"
