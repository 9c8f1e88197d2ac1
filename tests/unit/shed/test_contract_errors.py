"""Errors: their wire form, what craze's codes mean, and the one that may have run."""

import pytest

from craze.wire.codes import CODES
from craze_shed.contract import errors
from craze_shed.contract.codec import ContractError
from craze_shed.contract.errors import LaneError

FORMS = [
    (LaneError("unauthorized"), "unauthorized", "the agent requires authentication"),
    (LaneError("bad_request", "m"), {"bad_request": "m"}, "m"),
    (LaneError("unknown_session"), "unknown_session", "no such session"),
    (LaneError("unknown_approval"), "unknown_approval", "no such approval"),
    (
        LaneError("already_submitted"),
        "already_submitted",
        "that approval already has an answer in flight",
    ),
    (LaneError("already_resolved"), "already_resolved", "that approval is already resolved"),
    (LaneError("not_accepting"), "not_accepting", "the session is not accepting that right now"),
    (LaneError("unavailable", "m"), {"unavailable": "m"}, "m"),
    (LaneError("failed", "m"), {"failed": "m"}, "m"),
]


@pytest.mark.parametrize("error,wire,words", FORMS, ids=lambda it: getattr(it, "variant", None))
def test_each_variant_has_its_form_and_words(error, wire, words):
    assert error.to_wire() == wire
    assert LaneError.from_wire(wire) == error
    assert str(error) == error.message == words
    assert error.code == error.variant


@pytest.mark.parametrize("wire,problem", [
    ("tired", "LaneError: expected a variant, got tired"),
    ("failed", "LaneError: expected a variant, got failed"),
    ({"unauthorized": "m"}, "LaneError: expected a variant, got an object"),
    ({"failed": "m", "unavailable": "m"}, "LaneError: expected a variant, got an object"),
    ({"failed": 3}, "LaneError.failed: expected a string, got an integer"),
    (None, "LaneError: expected a variant, got null"),
])  # fmt: skip
def test_there_is_no_other_variant(wire, problem):
    with pytest.raises(ContractError) as caught:
        LaneError.from_wire(wire)
    assert str(caught.value) == problem


def test_no_other_variant_is_made():
    with pytest.raises(ValueError, match="no such variant of LaneError: tired"):
        LaneError("tired")


def test_every_code_of_craze_has_a_variant():
    assert set(errors.CRAZE_CODES) == CODES


@pytest.mark.parametrize("code,variant", errors.CRAZE_CODES.items())
def test_a_refusal_is_judged_by_its_code(code, variant):
    error = errors.for_code(code, "words")
    assert error == LaneError(variant, "words")


@pytest.mark.parametrize("code,message,number,words", [
    ("newer_code", "words", 0, "words"), ("newer_code", "", 0, "newer_code"),
    ("", "words", -32000, "words"), ("", "", -32603, "JSON-RPC error -32603"),
])  # fmt: skip
def test_an_unknown_code_is_failed_in_the_best_words_there_are(code, message, number, words):
    assert errors.for_code(code, message, number=number) == LaneError("failed", words)


def test_a_start_that_failed_says_why():
    why = errors.for_code("not_accepting", "m", "start_failed", " no key \n")
    assert why == LaneError("failed", "no key")
    silent = errors.for_code("not_accepting", "m", "start_failed", " ")
    assert silent == LaneError("failed", "the session failed to start")
    verb = errors.for_code("not_accepting", "m", "start_failed")
    assert verb == LaneError("not_accepting") and verb.reason == "start_failed"


def test_b10_an_unknown_outcome_is_told_from_every_failure():
    lost = errors.outcome_unknown("the connection to craze dropped; check the transcript")
    assert lost.to_wire() == {
        "failed": "outcome unknown: the connection to craze dropped; check the transcript"
    }
    assert lost.code == "outcome_unknown" and errors.is_outcome_unknown(lost)
    assert LaneError.from_wire(lost.to_wire()).code == "outcome_unknown"
    for error in (errors.failed("no"), errors.unavailable("outcome unknown: x"), ValueError()):
        assert not errors.is_outcome_unknown(error)


def test_crazes_own_words_are_never_taken_for_an_unknown_outcome():
    for error in (
        errors.for_code("failed", "outcome unknown: says craze"),
        errors.for_code("not_accepting", "", "start_failed", "outcome unknown: says craze"),
    ):
        assert error.message == "craze: outcome unknown: says craze"
        assert not errors.is_outcome_unknown(error)


def test_a_finished_lane_has_a_code_of_the_clients():
    error = errors.lane_ended()
    assert (error.code, error.message) == ("lane_ended", "the session has ended")
    assert not isinstance(error, LaneError)


def test_an_error_says_what_it_is():
    assert repr(errors.failed("no")) == "LaneError(failed: no)"
    assert len({errors.failed("no"), errors.failed("no"), errors.failed("on")}) == 2
