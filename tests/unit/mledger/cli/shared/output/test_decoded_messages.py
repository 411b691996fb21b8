"""Messages as lines for people."""

from mledger.cli.shared.output.decoded_messages import decoded_heading, decoded_line, readable_payload

MESSAGE = {
    "position": "12:3",
    "batch_index": 1,
    "publish_time": 1_700_000_000_123,
    "producer_name": "shop-1",
    "key": "alice",
    "properties": {"team": "red", "tries": "2"},
    "compression": "LZ4",
    "schema_version": 4,
}


def test_a_message_is_one_line_with_everything_that_people_ask_for() -> None:
    assert decoded_line(MESSAGE, b"hello").split() == [
        "12:3:1",
        "2023-11-14T22:13:20.123Z",
        "shop-1",
        "alice",
        "team=red,tries=2",
        "LZ4",
        "4",
        "hello",
    ]


def test_columns_are_aligned_with_their_headings() -> None:
    heading, line = decoded_heading(), decoded_line(MESSAGE, b"hello")
    assert heading.index("payload") == line.index("hello")
    assert heading.index("key") == line.index("alice")


def test_an_unknown_value_is_a_dash() -> None:
    assert decoded_line({"position": "12:3"}, b"x").split() == ["12:3", "-", "-", "-", "-", "-", "-", "x"]


def test_control_characters_are_escaped_so_that_a_message_is_one_line() -> None:
    assert readable_payload(b"a\nb\x1b[0m") == r"a\nb\x1b[0m"
    line = decoded_line(MESSAGE | {"key": "a\nb", "properties": {"x\r": "y\t"}, "producer_name": "p\x00"}, b"z")
    assert len(line.splitlines()) == 1


def test_a_payload_that_is_not_text_is_shown_in_hexadecimal() -> None:
    assert readable_payload(b"\xff\x00") == "ff00"


def test_a_time_out_of_range_is_shown_as_a_number() -> None:
    assert str(2**63) in decoded_line(MESSAGE | {"publish_time": 2**63}, b"")
