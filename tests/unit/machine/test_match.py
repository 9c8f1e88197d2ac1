import pytest

from craze.machine.match import match
from craze.machine.registry import Entry

ONE = Entry(1, "aaaa11112222", 1, "", "", "0190ab12-cd34-7ef0-8123-456789abcdef", "prov-one")
TWO = Entry(1, "bbbb11112222", 2, "", "", "0190ab12-cd34-7ef0-8123-000000abcdef", "prov-two")
STARTING = Entry(1, "aaaa33334444", 3, "", "")
STOPPING = Entry(1, "cccc11112222", 4, "", "", "session-4", "aaaa11112222", stopping=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0190ab12-cd34-7ef0-8123-456789abcdef", [ONE]),
        ("prov-two", [TWO]),
        ("bbbb11112222", [TWO]),
        ("aaaa33334444", [STARTING]),
        # The first tier decides, whatever later ones would find.
        ("aaaa11112222", [ONE, STOPPING]),
        ("6789abcdef", [ONE]),
        ("abcdef", [ONE, TWO]),
        ("cdef", [ONE, TWO]),
        ("def", []),
        ("0190ab12", [ONE, TWO]),
        ("sess", [STOPPING]),
        ("ses", []),
        ("aaaa1", [ONE]),
        ("aaaa", [ONE, STARTING]),
        ("cccc", [STOPPING]),
        # A provider's id only ever matches whole.
        ("prov", []),
        ("prov-", []),
        ("-two", []),
        ("ABCDEF", []),
    ],
)
def test_the_first_tier_with_any_match_decides(text: str, found: list[Entry]) -> None:
    assert match([ONE, TWO, STARTING, STOPPING], text) == found


def test_one_session_matched_through_several_fields_counts_once() -> None:
    same = Entry(1, "abcdabcdabcd", 1, "", "", "abcdabcdabcd", "abcdabcdabcd")
    assert match([same], "abcdabcdabcd") == match([same], "abcd") == [same]
