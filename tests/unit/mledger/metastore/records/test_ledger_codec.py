"""LedgerMetadata: all versions are read back as written; contradictory or truncated data is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.pb.LedgerMetadata_pb2 import LedgerMetadataFormat

HEADER = b"BookieMetadataFormatVersion\t%d\n"
bookies = st.integers(1, 99).map(lambda number: f"bookie-{number}:3181")
longs = st.integers(0, (1 << 63) - 1)


@st.composite
def metadata(draw, version):
    ensemble_size = draw(st.integers(1, 5))
    write_quorum = draw(st.integers(1, ensemble_size))
    starts = [0, *sorted(draw(st.sets(st.integers(1, 1 << 40), max_size=3)))]
    state = draw(st.sampled_from(LedgerState))
    closed = state is LedgerState.CLOSED
    plain = version == 1
    return LedgerMetadata(
        ensemble_size,
        write_quorum,
        write_quorum if plain else draw(st.integers(1, write_quorum)),
        tuple(Segment(start, tuple(draw(bookies) for _ in range(ensemble_size))) for start in starts),
        state,
        draw(st.integers(-1, 1 << 40)) if closed else -1,
        draw(longs) if closed else 0,
        None if plain else draw(st.none() | st.sampled_from(DigestType)),
        None if plain else draw(st.none() | st.binary(max_size=5)),
        -1 if plain else draw(st.just(-1) | longs),
        ()
        if plain
        else tuple(draw(st.lists(st.tuples(st.text('ab/\n"é', max_size=4), st.binary(max_size=5)), max_size=3))),
        draw(longs) if version == 3 else 0,
        version,
    )


EACH = pytest.mark.parametrize("version", [1, 2, 3])
PLAIN = LedgerMetadata(2, 2, 1, (Segment(0, ("a:1", "b:2")),))


def reading(data):
    """The metadata in data at /here, and the error; one of them is None."""
    try:
        return decode_ledger_metadata(data, "/here"), None
    except RecordError as error:
        return None, error


@EACH
@given(data=st.data())
def test_metadata_is_read_back_as_written(version, data):
    written = data.draw(metadata(version))
    assert decode_ledger_metadata(encode_ledger_metadata(written)) == written


@EACH
@given(data=st.data())
def test_truncated_metadata_is_refused_or_reads_as_a_whole_shorter_one(version, data):
    encoded = encode_ledger_metadata(data.draw(metadata(version)))
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    read, error = reading(cut)
    if error:
        assert "/here" in str(error)
    else:
        # The text forms mark no end: a cut between two lines can be whole. The binary form has a length.
        assert version < 3
        assert cut.endswith(b"\n")
        assert encode_ledger_metadata(read)[: len(cut)] == cut or version == 2


@given(st.binary(max_size=60))
def test_random_bytes_after_the_header_are_refused_or_are_metadata(junk):
    for version in (1, 2, 3):
        _, error = reading(HEADER % version + junk)
        assert error is None or error.path == "/here"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"ack_quorum": 3}, "must fall"),
        ({"ack_quorum": 0}, "must fall"),
        ({"ensemble_size": 3}, "does not have 3 bookies"),
        ({"segments": ()}, "no ensemble for entry 0"),
        ({"segments": (Segment(1, ("a:1", "b:2")),)}, "no ensemble for entry 0"),
        ({"segments": (Segment(0, ("a:1", "b:2")), Segment(0, ("a:1", "b:2")))}, "order"),
        ({"last_entry": 5}, "not closed"),
        ({"length": 5}, "not closed"),
        ({"state": LedgerState.CLOSED, "last_entry": -2}, "cannot be"),
        ({"format_version": 4}, "no format version 4"),
        ({"format_version": 1}, "version 1 holds no"),
        ({"c_token": 1 << 63}, "cannot be written"),
        ({"segments": (Segment(0, ("a:1", "b 2")),)}, "'b 2' is not a bookie id"),
    ],
)
def test_invalid_metadata_is_not_written(change, wrong):
    with pytest.raises(RecordError, match=wrong):
        encode_ledger_metadata(structs.replace(PLAIN, **change))


def version_3(**fields):
    message = LedgerMetadataFormat(quorumSize=1, ensembleSize=1, length=0, state=1)
    message.segment.add(firstEntryId=0, ensembleMember=["a:1"])
    for name, value in fields.items():
        setattr(message, name, value)
    body = message.SerializeToString()
    return HEADER % 3 + bytes([len(body)]) + body


def test_a_missing_ack_quorum_is_the_write_quorum_and_a_missing_last_entry_is_none():
    read = decode_ledger_metadata(version_3())
    assert (read.ack_quorum, read.last_entry, read.digest_type, read.password) == (1, -1, None, None)


def test_the_length_of_an_open_ledger_is_ignored():
    assert decode_ledger_metadata(version_3(length=99, lastEntryId=3)).length == 0


def test_fields_of_newer_versions_are_kept():
    data = version_3(ackQuorumSize=1, lastEntryId=-1, password=b"", cToken=0)
    newer = b"\xf8\x3f\x07"
    at = len(HEADER % 3)
    longer = data[:at] + bytes([data[at] + len(newer)]) + data[at + 1 :] + newer
    read = decode_ledger_metadata(longer)
    assert read.unknown == newer
    assert encode_ledger_metadata(read) == longer


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "does not begin with its format version"),
        (b"BookieMetadataFormatVersion\t3", "does not begin with its format version"),
        (HEADER % 4, "format version is 4"),
        (HEADER % 3, "length of its message is cut off"),
        (HEADER % 3 + b"\xff\xff\xff\xff\xff\x01", "malformed"),
        (version_3() + b"\0", "should have"),
        (version_3(state=3), "lacks lastEntryId"),
        (version_3().replace(b"a:1", b"a 1"), "not a bookie id"),
        (version_3().replace(b"\x28\x01", b"\x28\x09"), "lacks state"),
        (version_3(digestType=1).replace(b"\x38\x01", b"\x38\x09"), "digest type is not supported"),
        (HEADER % 2 + b"quorumSize: 2\n", "lacks"),
        (HEADER % 2 + b"quorumSize: 2\nnewField: 3\n", "newField"),
        (HEADER % 1 + b"1\n1\n0\n0\ta:1\n5\tCLOSE", "cut off"),
        (HEADER % 1 + b"1\n1\n0\n0\ta:1", "cut off"),
        (HEADER % 1 + b"1\n1\n", "cut off before the first ensemble"),
        (HEADER % 1 + b"1\n1_0\n0\n0\ta:1\n", "is not a number"),
        (HEADER % 1 + b"1\n1\n0\n99999999999999999999\ta:1\n", "is not a number"),
        (HEADER % 1 + b"1\n1\n0\n0\t\xff\n", "not UTF-8"),
    ],
)  # fmt: skip
def test_damage_is_named(data, wrong):
    with pytest.raises(RecordError, match=wrong):
        decode_ledger_metadata(data, "/ledgers/00/0000/L0000")


def test_the_ensemble_in_force_at_an_entry():
    segments = (Segment(0, ("a:1", "b:2")), Segment(7, ("a:1", "c:3")))
    read = structs.replace(PLAIN, segments=segments)
    assert [read.segment_at(entry).first_entry for entry in (0, 6, 7, 8)] == [0, 0, 7, 7]
    assert read.ensemble == ("a:1", "c:3")
