"""Records of topics and cursors are read back as written, and damage never reads as another record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    decode_position_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
    encode_position_info,
)
from mledger.metastore.records.compression import CompressionType
from mledger.metastore.records.pb import MLDataFormats_pb2 as pb
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    BatchDeletion,
    LedgerBits,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
    StateChunk,
)

longs = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
positions = st.builds(Position, longs, longs)
words = st.lists(longs, max_size=4).map(tuple)
ranges = st.lists(st.builds(PositionRange, positions, positions), max_size=4).map(tuple)
batch_deletions = st.lists(st.builds(BatchDeletion, positions, words), max_size=3).map(tuple)
compressions = st.sampled_from([kind.name for kind in CompressionType])


def pairs(keys, values):
    return st.lists(st.tuples(keys, values), max_size=3).map(tuple)


offloads = st.builds(
    lambda uid, complete, name: OffloadContext(
        pb.OffloadContext(
            uidMsb=uid,
            complete=complete,
            driverMetadata=pb.OffloadDriverMetadata(name=name),
            offloadSegment=[b"\x08\x01"],
        ).SerializeToString()
    ),
    longs,
    st.booleans(),
    texts,
)
ledgers = st.builds(
    LedgerInfo, longs, longs, longs, longs, st.none() | offloads, pairs(texts, texts), st.just(b""),
    st.frozensets(st.sampled_from(["entries", "size", "timestamp"])),
)  # fmt: skip
topics = st.builds(
    ManagedLedgerInfo, st.lists(ledgers, max_size=3).map(tuple), st.none() | positions, pairs(texts, texts)
)
cursors = st.builds(
    ManagedCursorInfo, longs, st.none() | positions, ranges, pairs(texts, longs), longs, batch_deletions,
    pairs(texts, texts), st.none() | positions,
)  # fmt: skip
chunks = st.builds(StateChunk, st.integers(0, 9), st.integers(0, 9), st.binary(max_size=9))
states = st.builds(
    PositionInfo, positions, ranges, pairs(texts, longs), batch_deletions,
    st.lists(st.builds(LedgerBits, longs, words, st.binary(max_size=9)), max_size=3).map(tuple),
    st.none() | chunks,
)  # fmt: skip

CODECS = {
    "topic": (topics, encode_managed_ledger_info, decode_managed_ledger_info),
    "cursor": (cursors, encode_managed_cursor_info, decode_managed_cursor_info),
    "state": (states, encode_position_info, decode_position_info),
}
EACH = pytest.mark.parametrize("kind", CODECS)


def reading(decode, data):
    """What `decode` makes of data at /here, and its error; one of them is None."""
    try:
        return decode(data, "/here"), None
    except RecordError as error:
        return None, error


@EACH
@given(data=st.data(), compression=compressions)
def test_a_record_is_read_back_as_written(kind, data, compression):
    strategy, encode, decode = CODECS[kind]
    record = data.draw(strategy)
    encoded = encode(record, compression=compression)
    decoded = decode(encoded)
    assert decoded.value == record
    assert decoded.compression == compression
    assert not decoded.text
    assert encode(decoded.value) == encode(record)


@EACH
@given(data=st.data())
def test_a_truncated_record_is_refused_or_reads_as_a_whole_shorter_one(kind, data):
    strategy, encode, decode = CODECS[kind]
    encoded = encode(data.draw(strategy))
    cut = encoded[: data.draw(st.integers(0, len(encoded)))]
    read, error = reading(decode, cut)
    if error:
        assert error.path == "/here"
        assert "/here" in str(error)
    else:
        # Protobuf marks no end: what can be read must at least be a record of exactly these bytes.
        assert encode(read.value) == cut


@EACH
@given(data=st.data(), compression=compressions.filter(lambda name: name != "NONE"))
def test_a_truncated_compressed_record_is_refused(kind, data, compression):
    strategy, encode, decode = CODECS[kind]
    encoded = encode(data.draw(strategy), compression=compression)
    cut = encoded[: data.draw(st.integers(2, len(encoded) - 1))]
    read, error = reading(decode, cut)
    # The last bytes of a sync flush carry nothing: without them the record is still whole.
    assert error or (compression == "ZLIB" and encode(read.value) == encode(decode(encoded).value))


@EACH
@given(junk=st.binary(max_size=40))
def test_random_bytes_give_our_error_or_a_record(kind, junk):
    _, _, decode = CODECS[kind]
    _, error = reading(decode, junk)
    assert error is None or error.path == "/here"


def test_a_topic_whose_record_is_empty_has_no_ledgers():
    assert decode_managed_ledger_info(b"").value == ManagedLedgerInfo()


@pytest.mark.parametrize("decode", [decode_managed_cursor_info, decode_position_info])
def test_an_empty_cursor_record_or_state_is_refused(decode):
    with pytest.raises(RecordError, match=r"/here cannot be read: a .* lacks"):
        decode(b"", "/here")


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (b"", "ledgerId, entryId"),
        (b"\x08\x05", "entryId"),
        (b"\x10\x05", "ledgerId"),
        (b"\x08\x05\x10\x06\x3a\x00", "partIndex"),
    ],
)
def test_the_error_names_the_missing_required_field(data, missing):
    with pytest.raises(RecordError, match=missing):
        decode_position_info(data, "entry 3 of ledger 9")


def test_a_cursor_with_half_a_mark_delete_position_is_refused():
    half = pb.ManagedCursorInfo(cursorsLedgerId=3, markDeleteLedgerId=5).SerializeToString()
    with pytest.raises(RecordError, match="only one of markDeleteLedgerId and markDeleteEntryId"):
        decode_managed_cursor_info(half)


def test_text_that_is_not_utf8_is_refused():
    damaged = encode_managed_ledger_info(ManagedLedgerInfo(properties=(("key", "value"),))).replace(
        b"value", b"va\xffue"
    )
    with pytest.raises(RecordError, match="not UTF-8"):
        decode_managed_ledger_info(damaged)


def test_fields_of_newer_versions_are_kept_in_the_record_and_in_its_ledgers():
    newer = b"\xf8\x3f\x07"
    ledger = LedgerInfo(5, 1, 2, 3, unknown=newer)
    info = ManagedLedgerInfo((ledger,), unknown=newer + b"\xfa\x3f\x01x")
    read = decode_managed_ledger_info(encode_managed_ledger_info(info)).value
    assert read == info
    assert read.ledgers[0].unknown == newer


def test_an_open_ledger_is_written_as_pulsar_writes_it():
    written = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(109),)))
    assert written.hex() == "0a04086d2000"


def test_a_chunk_and_a_checkpoint_marker_are_read_and_written():
    # No recorded data has these: built by hand from the public message definitions.
    commit = bytes.fromhex("0805 1006 3a04 0803 1003")
    state = decode_position_info(commit).value
    assert state == PositionInfo(Position(5, 6), chunk=StateChunk(3, 3))
    assert encode_position_info(state) == commit
    marker = bytes.fromhex("0805 1006 220e 0a0a 656e7472792d74797065 1002 3206 0807 1015 1003")
    state = decode_position_info(marker).value
    assert state.properties == (("entry-type", 2),)
    assert state.ledger_bits == (LedgerBits(7, (21, 3)),)
    assert encode_position_info(state) == marker


def test_a_bitmap_of_newer_versions_is_read_and_written():
    # Built by hand: LongListMap {key 7, bitmap}.
    data = bytes.fromhex("0805 1006 3207 0807 1a03 010203")
    state = decode_position_info(data).value
    assert state.ledger_bits == (LedgerBits(7, (), b"\x01\x02\x03"),)
    assert encode_position_info(state) == data


@pytest.mark.parametrize(
    ("encode", "record"),
    [
        (encode_position_info, PositionInfo(Position(1 << 63, 0))),
        (encode_managed_ledger_info, ManagedLedgerInfo(properties=(("k", "\ud800"),))),
        (encode_managed_cursor_info, ManagedCursorInfo(properties=(("k", 1 << 63),))),
    ],
)
def test_values_that_the_format_cannot_hold_are_refused_when_written(encode, record):
    with pytest.raises(RecordError, match="cannot be written"):
        encode(record)


def test_an_unknown_compression_is_refused_when_written():
    with pytest.raises(RecordError, match="not a compression"):
        encode_managed_ledger_info(ManagedLedgerInfo(), compression="BROTLI")
