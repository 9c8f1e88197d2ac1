"""Small texts: quoting, titles, cells, codes and times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import cells, codes, titles, words
from craze.wire.times import format_time, parse_time

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
ACCENT = "e\u0301\u0323"
FLAG = "🇩🇪"
ENGLAND = "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"


@pytest.mark.parametrize("text,quoted", [
    ("x", '"x"'), ("", '""'),
    ('a"b\\', '"a\\"b\\\\"'), ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
    ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'), ("é日😀", '"é日😀"'),
    ("\u200b\u2028", '"\\u200b\\u2028"'),
    ("\U000e0067", '"\\U000e0067"'),
])  # fmt: skip
def test_quoted(text, quoted):
    assert words.quote(text) == quoted


def test_a_refusal_does_not_send_megabytes_back():
    assert words.quote("x" * 1024) == f'"{"x" * 1024}"'
    assert words.quote("x" * 1025) == f'"{"x" * 1023}…"'


TITLES = [
    ("  two\n\twords  ", "two words"),
    ("\x1b[1;31mred\x1b[0m", "red"),
    ("\x9b31mred", "red"),
    ("a\x1b]0;window\x07b", "ab"),
    ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
    ("a\x9d0;window\x9cb", "ab"),
    ("a\x1bP1$r\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x9cd\x1bXsos\x18e", "abcde"),
    ("a\x1b]never ends", "a"),
    ("a\x1b]cut off\x1b[1mb", "ab"),
    ("a\x1b(Bb\x1bcc", "abc"),
    ("a\x1b", "a"),
    ("a\x1b[3é", "aé"),
    ("a\rb\x00\x07\x7f\x85c", "abc"),
    ("a\u200bb\u2060c\ufeffd\u202ae\u2066f", "abcdef"),
    ("a\u200cb\u200dc\u200ed\u200fe", "a\u200cb\u200dc\u200ed\u200fe"),
    ("a\u00a0\u3000b", "a b"),
    ("\ud800", "\ufffd"),
    ("x" * 119 + "  yz", "x" * 119),
    ("😀" * 121, "😀" * 120),
    (" \n\t\u200b", ""),
    ("", ""),
]


@pytest.mark.parametrize("title,normal", TITLES)
def test_a_title_is_normalized(title, normal):
    assert titles.normalize(title) == normal


odd = st.text(st.sampled_from("ab \n\t\x1b[]m0;\x07\\\x9b\x9c\x85\u200b\u200d\u202e\ud800é😀"))


@given(odd | st.text())
def test_a_normal_title_stays_as_it_is(title):
    normal = titles.normalize(title)
    assert titles.normalize(normal) == normal
    assert len(normal) <= 120 and normal == normal.strip()
    assert not set(normal) & set("\x1b\n\t\r\x9b\u200b\u202e")


GRAPHEMES = [
    (FAMILY, 2), (ACCENT, 1), (FLAG, 2), (ENGLAND, 2), ("👍🏽", 2), ("❤\ufe0f", 2), ("日", 2),
    ("ｗ", 2), ("한", 2), ("\u1112\u1161\u11ab", 2), ("\uac00\u11a8", 2), ("नि", 1),
    ("x", 1), ("é", 1), ("a\u200d", 1), ("\u200b", 0), ("👁\ufe0f\u200d🗨\ufe0f", 2),
]  # fmt: skip


@pytest.mark.parametrize("text,cells_taken", GRAPHEMES)
def test_a_grapheme_is_one_piece(text, cells_taken):
    assert list(cells.graphemes(text)) == [text]
    assert list(cells.graphemes(f"a{text}b"[1:-1] + "b")) == [text, "b"]
    assert cells.width(text) == cells_taken


def test_neighbours_are_not_one_piece():
    for text in (
        "ab",
        "日本",
        FLAG + FLAG,
        FAMILY + FAMILY,
        "한국",
        "a\u200db",
        "\u11a8\u1100",
        "👍👍",
    ):
        half = len(text) // 2
        parts = [text[:half], text[half:]] if text != "a\u200db" else ["a\u200d", "b"]
        assert list(cells.graphemes(text)) == parts


@pytest.mark.parametrize("text,line", [
    ("", ""), ("\n \n\t\n", ""), ("\n\x1b\n  first \r\nsecond", "first"), ("a\tb", "a    b"),
    ("a\x00\x07b\x85c", "abc"), ("\u00a0x", "x"),
])  # fmt: skip
def test_one_line(text, line):
    assert cells.one_line(text) == line


@pytest.mark.parametrize("piece,width", [
    ("x", 1), ("é", 1), ("日", 2), (FAMILY, 2), (ACCENT, 1), (FLAG, 2),
])  # fmt: skip
def test_b68_a_cut_keeps_graphemes_and_its_cells(piece, width):
    fits = 200 // width
    assert cells.one_line(piece * fits) == piece * fits
    assert cells.one_line(piece * (fits + 1)) == piece * (199 // width) + "…"
    assert cells.one_line("a" + piece * 9, 4) == "a" + piece * (2 // width) + "…"


@given(st.lists(st.sampled_from(["a", " ", "日", FAMILY, ACCENT, FLAG, "\u200d", "\u0301", "…"])),
       st.integers(1, 12))  # fmt: skip
def test_a_line_never_takes_more_than_its_cells(pieces, most):
    text = "".join(pieces)
    line = cells.one_line(text, most)
    assert cells.width(line) <= most
    whole = list(cells.graphemes(text.strip()))
    kept = list(cells.graphemes(line.removesuffix("…")))
    assert kept == whole[: len(kept)] or line == text.strip()


@given(st.text(max_size=40))
def test_graphemes_are_the_text_in_pieces(text):
    assert "".join(cells.graphemes(text)) == text
    assert all(cells.graphemes(text))


# ---- codes ----

OWN_REASONS = {
    "not_accepting": {"not_accepting", "not_in_turn", "start_failed", "not_resumable"},
    "aborted": {"command_aborted", "set_outcome_unknown", "bad_catalog", "context"},
    "unavailable": {
        "log_backed_up", "ask_unavailable", "set_unavailable", "not_run", "attach_raced",
        "not_ready", "busy", "closing", "aside_busy", "spawn_failed", "host_unreachable",
    },
    "failed": {"failed", "option_gone", "response_too_large", "snapshot_too_large"},
    "bad_request": {
        "bad_request", "bad_answer", "hello_required", "unknown_field", "line_too_long",
        "protocol_version", "bad_token", "already_attached", "connect_not_first",
        "ambiguous_session", "already_subscribed", "request_conflict",
    },
    "unsupported": {
        "unsupported", "unknown_method", "stop_unsupported", "models_refresh_unsupported",
        "aside_unsupported", "roster_unsupported", "hub_only", "host_only",
    },
}  # fmt: skip


def test_twenty_three_codes_and_their_reasons():
    assert len(codes.CODES) == 23
    by_code = {code: {r for r, c in codes.REASONS.items() if c == code} for code in codes.CODES}
    assert {code: own for code, own in by_code.items() if own != {code}} == OWN_REASONS
    assert len([code for code, own in by_code.items() if own == {code}]) == 17
    assert not codes.CLIENT_REASONS & codes.REASONS.keys()


def test_four_codes_are_sent_again():
    again = {code for code in codes.CODES if codes.retryable(code)}
    assert again == {"unavailable", "not_accepting", "in_progress", "stale_model"}


def test_a_refusal_s_error_leaves_out_what_it_lacks():
    refusal = codes.Refusal("busy", "try again")
    assert refusal.error() == {
        "code": -32000, "message": "try again", "data": {"code": "unavailable", "reason": "busy"},
    }  # fmt: skip
    with pytest.raises(KeyError):
        codes.Refusal("no_answer", "a client's own")


# ---- times ----


@pytest.mark.parametrize("nanoseconds,text", [
    (0, "1970-01-01T00:00:00Z"),
    (1, "1970-01-01T00:00:00.000000001Z"),
    (1_767_225_600_123_000_000, "2026-01-01T00:00:00.123Z"),
    (-1, "1969-12-31T23:59:59.999999999Z"),
    (-62_135_596_800_000_000_000, "0001-01-01T00:00:00Z"),
])  # fmt: skip
def test_times(nanoseconds, text):
    assert format_time(nanoseconds) == text
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize("text", ["2026-01-01T02:00:00.5+02:00", "2026-01-01t00:00:00.5z",
                                  "2026-01-01T00:00:00.50000000099Z"])  # fmt: skip
def test_other_spellings_of_a_time(text):
    assert format_time(parse_time(text)) == "2026-01-01T00:00:00.5Z"


@pytest.mark.parametrize("text", ["", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z",
                                  "2026-01-01T00:00:00Z\n", "２026-01-01T00:00:00Z",
                                  "2026-01-01T00:00:00.Z", "2026-01-01 00:00:00Z"])  # fmt: skip
def test_b63_what_is_no_time(text):
    with pytest.raises(ValueError):
        parse_time(text)


@given(st.integers(-62_135_596_800_000_000_000, 253_402_300_799_999_999_999))
def test_a_time_reads_back(nanoseconds):
    assert parse_time(format_time(nanoseconds)) == nanoseconds
