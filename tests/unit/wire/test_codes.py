"""The closed sets of codes and reasons."""

import pytest

from craze.wire import codes

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
