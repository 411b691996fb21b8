"""Published lines become messages with the keys in the lines."""

import io

import pytest

from mledger.cli.topics.messages.payloads import MessageShape, generated, lines, messages
from mledger.metastore.errors import InvalidSetting


def test_lines_lose_their_newline_and_nothing_else() -> None:
    assert list(lines(io.BytesIO(b"a\n\n b\r\nlast"))) == [b"a", b"", b" b\r", b"last"]


def test_generated_payloads_are_distinct_and_have_the_requested_size() -> None:
    payloads = list(generated(1000, 8))
    assert len(set(payloads)) == 1000
    assert {len(payload) for payload in payloads} == {8}


def test_messages_have_the_given_key_and_properties_and_rising_sequence_ids() -> None:
    made_of = list(messages([b"a", b"b"], MessageShape("k", None, {"p": "v"}, 7)))
    assert [(each.payload, each.key, each.sequence_id) for each in made_of] == [(b"a", "k", 7), (b"b", "k", 8)]
    assert made_of[0].properties == {"p": "v"}


def test_a_line_s_key_ends_at_the_first_separator() -> None:
    made_of = list(messages([b"k=v=w", b"=", b"\xff=x"], MessageShape(None, "=", {}, 0)))
    assert [(each.key, each.payload) for each in made_of] == [("k", b"v=w"), ("", b""), ("/w==", b"x")]
    assert [each.key_is_base64 for each in made_of] == [False, False, True]


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(InvalidSetting, match="line 2 has no '='"):
        list(messages([b"k=v", b"kv"], MessageShape(None, "=", {}, 0)))
