"""Refusals as they arrive, and texts that a terminal cannot be made to obey."""

import pytest

from craze.client import ClientError, ConnectionLost, OutcomeUnknown, Refused
from craze.client.errors import printable
from craze.wire.codes import CLIENT_REASONS, REASONS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, é and 漢字", "plain, é and 漢字"),
        ("two\nlines", "two\nlines"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("\r\t\x00\x7f", "\\x0d\\x09\\x00\\x7f"),
        ("a\u202eb\u200b", "a\\u202eb\\u200b"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
    for error in (ConnectionLost(text), Refused("failed", "failed", text, cause=text)):
        assert shown in str(error)
        assert "\x1b" not in str(error)


def test_a_refusal_carries_what_came() -> None:
    refused = Refused.read(
        {"code": -32602, "message": "m\x1b", "data": {
            "code": "not_accepting", "reason": "start_failed", "cause": "c", "result": {"a": 1},
        }}
    )  # fmt: skip
    assert (refused.code, refused.reason, refused.rpc) == ("not_accepting", "start_failed", -32602)
    assert (refused.message, refused.cause, refused.result) == ("m\x1b", "c", {"a": 1})
    assert str(refused) == "m\\x1b (not_accepting/start_failed): c"


@pytest.mark.parametrize(
    "error", [None, 3, {}, {"code": "x", "message": 4, "data": []}, {"data": {"code": 7}}]
)
def test_an_unreadable_error_is_a_failure(error: object) -> None:
    refused = Refused.read(error)
    assert (refused.code, refused.reason) == ("failed", "failed")
    assert str(refused) == "refused (failed)"


def test_a_code_of_a_later_host_is_kept() -> None:
    refused = Refused.read({"message": "m", "data": {"code": "novel", "reason": "shiny"}})
    assert (refused.code, refused.reason) == ("novel", "shiny")


def test_what_a_client_says_itself_no_endpoint_says() -> None:
    assert not CLIENT_REASONS & REASONS.keys()
    for reason in CLIENT_REASONS:
        assert OutcomeUnknown(reason, "m").reason == reason
        assert isinstance(OutcomeUnknown(reason, "m"), ClientError)
