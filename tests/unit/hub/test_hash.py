"""The hash of a create's params: the JSON that is hashed is written out here, letter by letter."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.hub.hash import request_hash
from craze.wire import params
from craze.wire.methods import METHODS


def decoded(**members: Any) -> dict[str, Any]:
    return params.decode(METHODS["session.create"], members)


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


LEAST = (
    '{"cwd":"/w","prompt":"","provider":"","model":"","effort":"","fast":null,'
    '"permissionMode":"bypass"}'
)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"cwd": "/w"}, LEAST),
        ({"cwd": "/w/./x/../", "permissionMode": "bypass"}, LEAST),
        ({"cwd": "//w", "requestId": "new-1"}, LEAST),
        (
            {
                "title": " Fix  it\n", "fast": False, "permissionMode": "prompt", "effort": "high",
                "model": "m", "provider": "grok", "prompt": " p ", "cwd": "/w", "requestId": "r",
            },
            '{"cwd":"/w","prompt":" p ","provider":"grok","model":"m","effort":"high",'
            '"fast":false,"permissionMode":"prompt","title":"Fix it"}',
        ),
        ({"cwd": "/w", "fast": True}, LEAST.replace("null", "true")),
    ],
)  # fmt: skip
def test_what_is_hashed_and_in_which_order(members: dict[str, Any], text: str) -> None:
    assert request_hash(decoded(**members)) == digest(text)


@pytest.mark.parametrize(
    ("prompt", "written"),
    [
        ("a<b>&c/d", r"a\u003cb\u003e\u0026c/d"),
        (r'"\u003c"', r"\"\\u003c\""),
        ("\u2028|\u2029", r"\u2028|\u2029"),
        ("\b\f\n\r\t\x00\x01\x1f\x7f", "\\b\\f\\n\\r\\t\\u0000\\u0001\\u001f\x7f"),
        ("é 🎉 \x85 \ufffd \u200b", "é 🎉 \x85 \ufffd \u200b"),
    ],
)
def test_text_is_written_as_go_writes_it(prompt: str, written: str) -> None:
    text = LEAST.replace('"prompt":""', f'"prompt":"{written}"')
    assert request_hash(decoded(cwd="/w", prompt=prompt)) == digest(text)


def test_one_fixed_hash() -> None:
    """Kept by the hosts of every craze that ever created one."""
    assert request_hash(decoded(cwd="/home/me/projects/lumen", prompt="fix <it>")) == (
        "sha256:afac3c72d06f95a26304e0571628d3e4ffe4ea22bfd756b2fa3107ce62360edf"
    )


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(st.tuples(_TEXTS, _TEXTS), min_size=2, max_size=2))
def test_other_params_hash_otherwise(pairs: list[tuple[str, str]]) -> None:
    one, other = ({"cwd": "/w", "model": model, "effort": effort} for model, effort in pairs)
    assert (request_hash(one) == request_hash(other)) == (one == other)


def test_it_fits_a_hosts_flag() -> None:
    found = request_hash(decoded(cwd="/w"))
    assert len(found) == len("sha256:") + 64 and found.removeprefix("sha256:").isalnum()
