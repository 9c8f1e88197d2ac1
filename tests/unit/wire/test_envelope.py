"""What a line must be before a method sees it, and how lines are written."""

import json as stdlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craze.wire import envelope, json
from craze.wire.codes import Refusal
from craze.wire.methods import METHODS

# Each line fails the check it stands for and every later one that it can; tables 2.4 in order.
BAD = [
    (b'{"id":1,', b"null", -32700, "bad_request", "not JSON"),
    (b"[]", b"null", -32600, "bad_request", "a batch: protocol 1 takes one request per line"),
    (b'[{"id":1}]', b"null", -32600, "bad_request",
     "a batch: protocol 1 takes one request per line"),
    (b'"x"', b"null", -32600, "bad_request", "not a JSON object"),
    (b"null", b"null", -32600, "bad_request", "not a JSON object"),
    (b'{"z":1}', b"null", -32600, "bad_request",
     "no id: a request carries a number or a string"),
    (b'{"id":null,"z":1}', b"null", -32600, "bad_request",
     "no id: a request carries a number or a string"),
    (b'{"id":true,"z":1}', b"null", -32600, "bad_request",
     "no id: a request carries a number or a string"),
    (b'{"id":[1],"z":1}', b"null", -32600, "bad_request",
     "no id: a request carries a number or a string"),
    (b'{"id":7,"z":1,"y":2,"method":"x"}', b"7", -32600, "bad_request", 'unknown member "y"'),
    (b'{"id":7,"result":{}}', b"7", -32600, "bad_request", 'unknown member "result"'),
    (b'{"id":7,"ID":8}', b"7", -32600, "bad_request", 'unknown member "ID"'),
    (b'{"id":7,"method":"x"}', b"7", -32600, "bad_request", 'jsonrpc must be "2.0"'),
    (b'{"id":7,"jsonrpc":2.0,"method":"x"}', b"7", -32600, "bad_request", 'jsonrpc must be "2.0"'),
    (b'{"id":7,"jsonrpc":"2.0"}', b"7", -32600, "bad_request", "no method"),
    (b'{"id":7,"jsonrpc":"2.0","method":""}', b"7", -32600, "bad_request", "no method"),
    (b'{"id":7,"jsonrpc":"2.0","method":["hello"]}', b"7", -32600, "bad_request", "no method"),
    (b'{"id":7,"jsonrpc":"2.0","method":"x\\n","params":3}', b"7", -32601, "unknown_method",
     'unknown method "x\\n"'),
]  # fmt: skip


@pytest.mark.parametrize("line,id,rpc,reason,message", BAD)
def test_a_bad_line_fails_its_first_check(line, id, rpc, reason, message):
    with pytest.raises(envelope.BadLine) as caught:
        envelope.parse(line)
    refusal = caught.value.refusal
    assert (caught.value.id, refusal.rpc, refusal.reason, refusal.message) == (
        id, rpc, reason, message,
    )  # fmt: skip


IDS = [b"1", b"-0", b"1.50", b"1E2", b"0.1e-7", b'""', b'"a b"', rb'"\u0041\ud800\/"',
       b"12345678901234567890123", '"é\u2028"'.encode()]  # fmt: skip


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("line", [
    b'{"jsonrpc":"2.0","id":%b,"method":"session.state"}',
    b' { "method" : "session.state" , "id" : %b , "jsonrpc":"2.0" }\t',
])  # fmt: skip
def test_an_id_is_echoed_byte_for_byte(id, line):
    request = envelope.parse(line % id)
    assert request == (id, "session.state", envelope.ABSENT)
    assert envelope.result(request.id, b"{}") == b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % id


def test_the_last_of_a_member_given_twice_counts():
    line = b'{"jsonrpc":"1","id":1,"method":"x","jsonrpc":"2.0","id":"b","method":"hello"}'
    assert envelope.parse(line) == (b'"b"', "hello", envelope.ABSENT)


@pytest.mark.parametrize("params", ["null", "[1]", '{"a":{"a":1}}', '"x"'])
def test_params_are_whatever_they_are(params):
    line = f'{{"jsonrpc":"2.0","id":1,"method":"session.state","params":{params}}}'
    assert envelope.parse(line.encode()).params == stdlib.loads(params)


def test_b61_only_the_methods_that_refuse_a_repeated_member_learn_of_it():
    line = b'{"jsonrpc":"2.0","params":{"id":"a","i\\u0064":"b"},"id":1,"method":"%b"}'
    assert envelope.parse(line % b"session.reopen").params.member == "id"
    assert type(envelope.parse(line % b"session.state").params) is dict


def test_a_line_that_holds_nothing_is_blank():
    assert all(map(envelope.blank, (b"", b" ", b"\t \r")))
    assert not envelope.blank(b" {")


def test_the_words_for_a_line_too_long():
    host = envelope.too_long("host")
    assert (host.rpc, host.code, host.reason) == (-32600, "bad_request", "line_too_long")
    assert host.message == "the line is over the 4194304-byte inbound limit and was discarded"
    assert envelope.too_long("hub").message == "line too long"


def test_lines_are_written_in_wire_order():
    refusal = Refusal("start_failed", 'no "x" <here>', cause="gone", result={"supported": [1]})
    assert envelope.error(envelope.NO_ID, refusal) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no \\"x\\" <here>",'
        b'"data":{"code":"not_accepting","reason":"start_failed","result":{"supported":[1]},'
        b'"cause":"gone"}}}\n'
    )
    written = b'{"jsonrpc":"2.0","method":"reset","params":{"reason":"omitted"}}\n'
    assert envelope.notification("reset", {"reason": "omitted"}) == written
    assert envelope.notification("reset", b'{"reason":"omitted"}') == written
    assert envelope.request("1", "hello", {"protocols": [1]}) == (
        b'{"jsonrpc":"2.0","id":"1","method":"hello","params":{"protocols":[1]}}\n'
    )


@given(st.integers(-(2**63), 2**63) | st.text(st.characters(codec="utf-8"), max_size=10),
       st.sampled_from(sorted(METHODS)),
       st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), st.integers() | st.none(),
                       max_size=4))  # fmt: skip
def test_what_a_client_writes_is_read_as_it_meant(id, method, params):
    line = envelope.request(id, method, params)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    request = envelope.parse(line[:-1])
    assert (json.loads(request.id), request.method, request.params) == (id, method, params)


pieces = st.lists(
    st.sampled_from(
        [b'{"jsonrpc":"2.0"', b',"id":1', b',"id":"\\ud800"', b',"method":"hello"', b',"params":{}',
         b"}", b"{", b"[", b"]", b",", b":", b'"', b"\\", b"1e999", b"NaN", b"\xff", b"\x00", b" ",
         b'"id"', b'"params"', b'"method":"session.reopen"', b'{"id":1,"id":2}', b"9" * 5000]
    )
    | st.binary(max_size=4),
    max_size=12,
).map(b"".join)  # fmt: skip


@given(pieces | st.binary())
def test_no_line_raises_anything_but_a_bad_line(line):
    try:
        request = envelope.parse(line)
    except envelope.BadLine as bad:
        assert stdlib.loads(bad.id) is None or isinstance(stdlib.loads(bad.id), str | int | float)
        assert stdlib.loads(envelope.error(bad.id, bad.refusal))["error"]["code"] == bad.refusal.rpc
    else:
        assert request.method in METHODS
