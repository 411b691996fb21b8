"""Messages in a stream: what is shown of entries that are not taken apart."""

import io
import json

import pytest

from mledger.cli.shared.output.entries import LARGEST_UNPACKED, MESSAGE_KEYS, MessageWriter
from mledger.cli.shared.output.results import Output
from mledger.messages.pulsar_message import MOST_MESSAGES, PulsarMessage, assemble_entry, encode_entry
from mledger.metastore.records.compression import CompressionType, pack_block
from mledger.pb.PulsarApi_pb2 import CompressionType as WireCompression
from mledger.pb.PulsarApi_pb2 import MessageMetadata

EMPTY_MESSAGE = b"\x00\x00\x00\x02\x18\x00"


def compressed(payload: bytes, size: int, messages: int | None) -> bytes:
    """An entry that says that it unpacks to `size` bytes, and is a batch of so many messages."""
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        compression=WireCompression.Value("ZSTD"),
        uncompressed_size=size,
    )
    if messages is not None:
        metadata.num_messages_in_batch = messages
    return assemble_entry(metadata, pack_block(CompressionType.ZSTD, payload))


MANY = compressed(EMPTY_MESSAGE * (MOST_MESSAGES + 1), len(EMPTY_MESSAGE) * (MOST_MESSAGES + 1), MOST_MESSAGES + 1)
LARGE = compressed(b"x", LARGEST_UNPACKED + 1, None)
GOOD = encode_entry([PulsarMessage(b"good")], producer_name="p", publish_time=1)


@pytest.mark.parametrize("hostile", [MANY, LARGE], ids=["many messages", "large"])
def test_an_entry_that_is_too_large_is_left_out_and_told_of(hostile, capsys) -> None:
    stream = io.BytesIO()
    writer = MessageWriter(Output("table"), stream=stream)
    for entry, payload in enumerate((hostile, hostile, GOOD)):
        writer.write(f"1:{entry}", payload)
    writer.end()
    assert stream.getvalue() == b"good\n"
    assert "2 entries too large to be unpacked omitted: --output json and --raw show them" in capsys.readouterr().err


def test_an_entry_that_is_too_large_is_one_object_for_programs(capsys) -> None:
    writer = MessageWriter(Output("ndjson"))
    writer.write("1:0", MANY)
    (line,) = capsys.readouterr().out.splitlines()
    shown = json.loads(line)
    assert (shown["position"], shown["compression"], shown["size"]) == ("1:0", "ZSTD", len(MANY))


def test_a_batch_of_as_many_messages_as_are_taken_apart_is_shown() -> None:
    stream = io.BytesIO()
    size = len(EMPTY_MESSAGE) * MOST_MESSAGES
    MessageWriter(Output("table"), stream=stream).write(
        "1:0", compressed(EMPTY_MESSAGE * MOST_MESSAGES, size, MOST_MESSAGES)
    )
    assert stream.getvalue() == b"\n" * MOST_MESSAGES


@pytest.mark.parametrize(
    ("output_format", "shown"), [("csv", ",".join(MESSAGE_KEYS) + "\n"), ("json", ""), ("yaml", "")]
)
def test_a_stream_without_entries_is_its_header_in_csv(capsys, output_format, shown) -> None:
    MessageWriter(Output(output_format)).end()
    assert capsys.readouterr().out == shown


def test_a_stream_with_entries_has_one_header_in_csv(capsys) -> None:
    writer = MessageWriter(Output("csv"))
    writer.write("1:0", GOOD)
    writer.end()
    assert capsys.readouterr().out.count("position") == 1


def test_a_stream_that_failed_before_its_first_entry_is_empty(capsys) -> None:
    MessageWriter(Output("csv")).end(failed=True)
    assert capsys.readouterr().out == ""
