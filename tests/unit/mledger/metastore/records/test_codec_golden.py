"""Records that Java made (tests/golden/records): same meaning and same bytes, compressed too."""

import pytest

from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    decode_position_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
    encode_position_info,
)
from mledger.metastore.records.position import Position
from tests.support.recordings import golden, golden_meaning

CODECS = {
    "managedLedgerInfo": (
        decode_managed_ledger_info,
        encode_managed_ledger_info,
        golden_meaning.managed_ledger_info,
    ),
    "managedCursorInfo": (
        decode_managed_cursor_info,
        encode_managed_cursor_info,
        golden_meaning.managed_cursor_info,
    ),
    "positionInfo": (decode_position_info, encode_position_info, golden_meaning.position_info),
}
FILES = golden.files("records/records-*.json")
EACH = pytest.mark.parametrize(("file", "kind"), [(file, kind) for file in FILES for kind in CODECS])


@EACH
def test_a_record_means_what_java_reads_in_it(file, kind):
    decode, _, meaning_of = CODECS[kind]
    for record in golden.load(file)[kind]:
        decoded = decode(bytes.fromhex(record["hex"]))
        assert meaning_of(decoded.value) == record["decoded"]
        assert (decoded.compression, decoded.text) == ("NONE", False)


@EACH
def test_a_record_is_written_back_to_the_same_bytes(file, kind):
    decode, encode, _ = CODECS[kind]
    for record in golden.load(file)[kind]:
        assert encode(decode(bytes.fromhex(record["hex"])).value).hex() == record["hex"]


@EACH
def test_a_compressed_record_equals_the_plain_one(file, kind):
    decode, encode, _ = CODECS[kind]
    for record in golden.load(file)[kind]:
        plain = decode(bytes.fromhex(record["hex"]))
        for compression, compressed in record.get("compressed_hex", {}).items():
            decoded = decode(bytes.fromhex(compressed))
            assert decoded.value == plain.value
            assert decoded.compression == compression
            assert decode(encode(plain.value, compression=compression)) == decoded


def test_the_golden_records_have_every_compression():
    seen = {
        name
        for file in FILES
        for kind in CODECS
        for each in golden.load(file)[kind]
        for name in each.get("compressed_hex", {})
    }
    assert seen == {"NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"}


ODD = {case["what"]: case for case in golden.load("records/odd-input.json")["cases"]}
READERS = {
    "asManagedLedgerInfo": (decode_managed_ledger_info, golden_meaning.managed_ledger_info),
    "asManagedCursorInfo": (decode_managed_cursor_info, golden_meaning.managed_cursor_info),
}
# The text form of very old clusters: Java 4.2 refuses it, this project reads it (formats.md).
READ_HERE = {("text ManagedLedgerInfo", "asManagedLedgerInfo"), ("text ManagedCursorInfo", "asManagedCursorInfo")}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_odd_input_is_read_or_refused_as_in_java(what, reader):
    case, (decode, meaning_of) = ODD[what], READERS[reader]
    data = bytes.fromhex(case["hex"])
    if (what, reader) in READ_HERE:
        assert f"{reader}_error" in case
        assert decode(data).text
    elif reader in case:
        assert meaning_of(decode(data).value) == case[reader]
    else:
        with pytest.raises(RecordError, match="/somewhere"):
            decode(data, "/somewhere")


def test_the_text_of_a_topic_from_a_very_old_cluster():
    info = decode_managed_ledger_info(bytes.fromhex(ODD["text ManagedLedgerInfo"]["hex"])).value
    assert [(each.ledger_id, each.entries, each.size, each.timestamp) for each in info.ledgers] == [
        (3, 10, 100, 1400000000000),
        (5, 0, 0, 0),
    ]


def test_the_text_of_a_cursor_from_a_very_old_cluster():
    info = decode_managed_cursor_info(bytes.fromhex(ODD["text ManagedCursorInfo"]["hex"])).value
    assert (info.cursors_ledger_id, info.mark_delete) == (12, Position(3, 4))


@pytest.mark.parametrize("what", ["text ManagedLedgerInfo", "text ManagedCursorInfo"])
def test_a_text_truncated_within_a_line_is_refused(what):
    data = bytes.fromhex(ODD[what]["hex"])
    decode = decode_managed_ledger_info if what.endswith("LedgerInfo") else decode_managed_cursor_info
    for end in range(1, len(data)):
        if data[end - 1 : end] != b"\n":
            with pytest.raises(RecordError):
                decode(data[:end])


def test_an_unknown_field_is_written_back():
    data = bytes.fromhex(ODD["unknown field 99"]["hex"])
    assert encode_managed_ledger_info(decode_managed_ledger_info(data).value) == data
