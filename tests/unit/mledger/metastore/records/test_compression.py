"""Compressed records: every codec, and headers that do not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.errors import RecordError
from mledger.metastore.records.compression import LARGEST_RECORD, CompressionType, compress, decompress
from mledger.metastore.records.pb import MLDataFormats_pb2 as pb


@given(st.binary(max_size=300), st.sampled_from(CompressionType))
def test_decompression_returns_what_was_compressed(record, kind):
    if kind is not CompressionType.NONE or not record.startswith(b"\x47\x78"):
        assert decompress(compress(record, kind), "record", "") == (record, kind)


def header(kind, size):
    encoded = pb.CompressionMetadata(compressionType=kind, uncompressedSize=size).SerializeToString()
    return b"\x47\x78" + len(encoded).to_bytes(4, "big") + encoded


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [0, 1, 19, 21, 4000])
def test_a_header_with_a_wrong_size_is_refused(kind, size):
    packed = compress(b"twenty bytes of text", CompressionType(kind))
    block = packed[len(header(kind, 20)) :]
    assert decompress(header(kind, 20) + block, "record", "")[0] == b"twenty bytes of text"
    with pytest.raises(RecordError, match=CompressionType(kind).name):
        decompress(header(kind, size) + block, "record", "")


@pytest.mark.parametrize("size", [-1, LARGEST_RECORD + 1])
def test_a_header_with_an_impossible_size_is_refused_before_decompression(size):
    with pytest.raises(RecordError, match="claims a size"):
        decompress(header(1, size), "record", "")


def test_an_unknown_compression_type_is_named():
    with pytest.raises(RecordError, match="type 9"):
        decompress(header(9, 3) + b"abc", "record", "")
