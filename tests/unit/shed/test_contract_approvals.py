"""Which of the offered options a decision means."""

import pytest

from craze_shed.contract.approvals import LaneApproval, LaneApprovalOption, option_for


def option(id, kind=None, label=""):
    return LaneApprovalOption(id=id, label=label, kind=kind)


OFFERED = [
    option("1", "allow_once", "Yes, proceed"),
    option("2", "allow_once", "Yes, and don't ask again for anything (always-approve mode)"),
    option("3", "allow_always", "Yes, and don't ask again for this command"),
    option("4", "reject_once", "No"),
    option("5", "reject_always", "No, and never ask"),
]


@pytest.mark.parametrize("decision,id", [
    ("allow_once", None), ("allow_always", "3"), ("reject", "4"),
])  # fmt: skip
def test_two_options_of_one_kind_are_never_chosen_between(decision, id):
    chosen = option_for(OFFERED, decision)
    assert (chosen and chosen.id) == id


def test_a_rejection_falls_back_to_whatever_rejects():
    assert option_for([one for one in OFFERED if one.id != "4"], "reject").id == "5"
    assert (
        option_for([option("a", "reject_softly"), option("b", "reject_always")], "reject").id == "a"
    )


def test_two_rejections_of_the_wanted_kind_are_ambiguous():
    assert option_for([option("a", "reject_once"), option("b", "reject_once")], "reject") is None


def test_an_option_without_a_kind_never_matches_whatever_its_id():
    bare = [option("allow_once"), option("allow_always"), option("reject_once"), option("x", "")]
    for decision in ("allow_once", "allow_always", "reject"):
        assert option_for(bare, decision) is None


def test_an_allowance_never_falls_back():
    assert option_for([option("a", "allow_always")], "allow_once") is None


@pytest.mark.parametrize("status,pending", [
    ("pending", True), ("submitted", False), ("resolved", False), ("parked", False),
])  # fmt: skip
def test_only_a_pending_approval_can_be_answered(status, pending):
    given = {
        "id": "a", "session_id": "s", "kind": "riddle", "status": status, "title": "",
        "request_json": "",
    }  # fmt: skip
    approval = LaneApproval.from_wire(given)
    assert (approval.pending, approval.kind, approval.status) == (pending, "riddle", status)
    assert approval.to_wire() == {**given, "options": [], "questions": []} | {"request_json": ""}
