"""JSON at the door and on the way out."""

import json as stdlib
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import json

DIGITS = b"9" * 5000

NOT_JSON = {
    "nothing": b"",
    "two values": b"1 2",
    "a trailing comma": b'{"a":1,}',
    "a leading comma": b"{,}",
    "no colon": b'{"a" 1}',
    "no value": b'{"a":}',
    "no comma": b'{"a":1 "b":2}',
    "no end": b'{"a":1',
    "a bare name": b"{a:1}",
    "a number for a name": b"{1:1}",
    "trailing text": b"{} x",
    "NaN": b'{"a":NaN}',
    "Infinity": b"[Infinity,-Infinity]",
    "a leading zero": b'{"a":01}',
    "a bare point": b'{"a":1.}',
    "a plus": b"[+1]",
    "a number past a double": b'{"a":1e999}',
    "thousands of digits": b'{"a":' + DIGITS + b"}",
    "a newline in a string": b'{"a":"x\ny"}',
    "a control character in a string": b'{"a":"\x01"}',
    "invalid UTF-8": b'{"a":"\xff"}',
    "a surrogate's bytes": b'{"a":"\xed\xa0\x80"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "another space": "\u00a0{}".encode(),
    "depth": b"[" * 200_000,
    "depth in an object": b'{"a":' * 200_000,
    "single quotes": b"{'a':1}",
    "an unknown escape": b'{"a":"\\x"}',
    "half an escape": b'{"a":"\\u12"}',
    "a comment": b"{}//",
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_b58_b60_what_is_no_json_is_refused_one_way(name):
    data = NOT_JSON[name]
    with pytest.raises(json.NotJSON):
        json.parse(data)
    try:
        text = json.decode(data)
    except json.NotJSON:
        return
    if data.lstrip().startswith(b"{"):
        with pytest.raises(json.NotJSON):
            json.members(text)


@pytest.mark.parametrize("data", [b"{}", b' {"a" : [1 , 2.5e3 ] , "b":null}\t', b'{"a":{"b":{}}}'])
def test_members_say_where_each_value_stands(data):
    text = data.decode()
    found = json.members(text)
    assert {name: value for name, value, _, _ in found} == json.parse(data)
    assert all(stdlib.loads(text[begin:end]) == value for _, value, begin, end in found)


def test_members_of_what_is_no_object():
    assert json.members("[1]") is None
    assert json.members("  ") is None


def test_b61_a_member_given_twice_is_noted_where_asked_and_the_last_wins():
    twice = rb'{"i":"a","\u0069":"b","x":{"y":1,"y":2}}'
    assert type(json.parse(twice)) is dict
    noted = json.parse(twice, duplicates=True)
    assert noted == {"i": "b", "x": {"y": 2}}
    assert (noted.member, noted["x"].member) == ("i", "y")
    assert type(json.parse(b'{"a":1}', duplicates=True)) is dict


@pytest.mark.parametrize("read", [json.parse, json.loads])
def test_b59_a_lone_surrogate_becomes_a_replacement_character(read):
    assert read(rb'{"\ud800":["\uDFFFx","\ud83d\ude00"]}') == {"\ufffd": ["\ufffdx", "😀"]}
    repeated = json.parse(rb'{"\ud800":1,"\ud800":2}', duplicates=True)
    assert (repeated, repeated.member) == ({"\ufffd": 2}, "\ufffd")


def test_depth_that_only_the_replacing_cannot_follow_is_refused():
    deep = b"[" * 900 + rb'"\ud800"' + b"]" * 900
    for read in (json.parse, json.loads):
        try:
            value = read(deep)
        except ValueError:
            continue
        while isinstance(value, list):
            (value,) = value
        assert value == "\ufffd"


WRITTEN = [
    ('a"\\/<>&', rb'"a\"\\/<>&"'),
    ("\b\f\n\r\t\x00\x1f\x7f", b'"\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"'),
    ("é日😀", '"é日😀"'.encode()),
    ("\u2028\u2029", b'"\\u2028\\u2029"'),
    ("\ud800é", b'"\\ufffd' + "é".encode() + b'"'),
    ("\udcff", b'"\\ufffd"'),
    ("\ufffd", '"\ufffd"'.encode()),
]


@pytest.mark.parametrize("text,data", WRITTEN)
def test_strings_are_written_by_the_codec_rules(text, data):
    assert json.dumps(text) == data
    assert json.dumps({text: 1}) == b"{" + data + b":1}"


def test_what_is_written_is_compact_and_in_order():
    value = {"b": 1, "a": [True, None, 2**70, -0.5], "": {}}
    assert json.dumps(value) == b'{"b":1,"a":[true,null,%d,-0.5],"":{}}' % 2**70


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_b60_what_json_has_no_form_for_is_never_written(number):
    with pytest.raises(ValueError):
        json.dumps({"a": [number]})
    with pytest.raises(TypeError):
        json.dumps({"a": b"bytes"})


def test_nesting_without_end_is_a_value_error():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError):
        json.dumps(endless)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"NaN", b'{"a":Infinity}', b"\xff", DIGITS, b"[" * 5000, b'"\xed\xa0\x80"']
)
def test_b58_every_failure_of_loads_is_a_value_error(data):
    with pytest.raises(ValueError):
        json.loads(data)


def test_a_string_may_speak_of_nan():
    assert json.loads(b'{"a":"NaN"}') == {"a": "NaN"}


texts = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_written_reads_back_the_same_three_ways(value):
    data = json.dumps(value)
    assert b"\n" not in data
    assert json.parse(data) == json.loads(data) == stdlib.loads(data) == value


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_b59_any_text_is_written_as_utf_8(text):
    assert json.loads(json.dumps(text)) == "".join(
        "\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text
    )


nearly = st.binary(max_size=30) | st.text(
    st.sampled_from('{}[],:"\\u0123456789eE+-.ntrualsef \ud7ff\n'), max_size=30
).map(lambda text: text.encode())


@given(nearly)
def test_the_strict_parse_takes_what_the_standard_library_takes_and_nothing_else(data):
    try:
        value = stdlib.loads(data.decode(), parse_constant=lambda name: [][0])
    except (ValueError, IndexError):
        value = json.ABSENT
    try:
        assert json.parse(data) == value
    except json.NotJSON:
        assert value is json.ABSENT or math.inf in flat(value) or -math.inf in flat(value)


def flat(value):
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return [leaf for item in inner for leaf in flat(item)]
    return [value]


def test_one_module_imports_ujson():
    package = Path(json.__file__).parents[1]
    users = [
        path.name
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) ujson", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert users == ["json.py"]
