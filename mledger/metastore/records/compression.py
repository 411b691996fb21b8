"""Compressed records: magic, a small header, the record as a raw block (formats.md, Managed-ledger records).

Layout: `0x4778`, the header's length in 4 bytes, the header {compression type, uncompressed size}, the compressed
record. LZ4 and SNAPPY are raw blocks, ZLIB ends at a sync flush without end marker or checksum. A record that does
not begin with the magic is not compressed: no protobuf message begins with it.
"""

import enum
import zlib
from collections.abc import Callable

import cramjam

from mledger.metastore.errors import RecordError
from mledger.metastore.records.pb.MLDataFormats_pb2 import CompressionMetadata
from mledger.metastore.records.protobuf import parse_binary, record_error

MAGIC = b"\x47\x78"
LARGEST_RECORD = 256 << 20
"""The most bytes that a record may claim as its uncompressed size; a larger claim counts as damage."""

_HEADER_AT = len(MAGIC) + 4


class CompressionType(enum.Enum):
    """How a record's bytes are packed; the numbers are the header's."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


def decompress(data: bytes, what: str, path: str) -> tuple[bytes, CompressionType]:
    """The record in `data` and how it was packed; RecordError when the header or the block is damaged."""
    if not data.startswith(MAGIC):
        return data, CompressionType.NONE
    body_at = _HEADER_AT + int.from_bytes(data[len(MAGIC) : _HEADER_AT], "big")
    if len(data) < _HEADER_AT or body_at > len(data):
        raise record_error(what, path, f"its compression header does not fit its {len(data)} bytes")
    header = parse_binary(CompressionMetadata, data[_HEADER_AT:body_at], what, path)
    size = header.uncompressedSize
    if not 0 <= size <= LARGEST_RECORD:
        raise record_error(what, path, f"its compression header claims a size of {size} bytes")
    try:
        kind = CompressionType(header.compressionType)
    except ValueError:
        raise record_error(what, path, f"its compression type {header.compressionType} is not supported") from None
    return unpack_block(kind, data[body_at:], size, what, path), kind


def unpack_block(kind: CompressionType, block: bytes, size: int, what: str, path: str = "") -> bytes:
    """Unpack `block` to its `size` bytes; RecordError when it is damaged or holds another number of bytes."""
    if not 0 <= size <= LARGEST_RECORD:
        raise record_error(what, path, f"a {kind.name} block that claims to unpack to {size} bytes is damaged")
    try:
        record = _UNPACK[kind](block, size)
    except (cramjam.DecompressionError, zlib.error, ValueError) as error:
        raise record_error(what, path, f"its {kind.name} block is damaged: {error}") from None
    if len(record) != size:
        raise record_error(what, path, f"its {kind.name} block unpacks to {len(record)} bytes instead of {size}")
    return record


def pack_block(kind: CompressionType, record: bytes) -> bytes:
    """`record` as a block without a header."""
    return _PACK[kind](record)


def compress(record: bytes, kind: CompressionType) -> bytes:
    """`record` packed as `kind`; itself for NONE, which has no header."""
    if kind is CompressionType.NONE:
        return record
    if len(record) > LARGEST_RECORD:
        raise RecordError(f"a record of {len(record)} bytes is too large to be written")
    header = CompressionMetadata(compressionType=kind.value, uncompressedSize=len(record)).SerializeToString()
    return MAGIC + len(header).to_bytes(4, "big") + header + pack_block(kind, record)


def _unpack_none(block: bytes, size: int) -> bytes:
    return block


def _unpack_lz4(block: bytes, size: int) -> bytes:
    # Into a buffer of the header's size: asked for that many bytes, cramjam fills up what is missing with zeros.
    record = bytearray(size)
    return bytes(record[: cramjam.lz4.decompress_block_into(block, record)])


def _unpack_zlib(block: bytes, size: int) -> bytes:
    return zlib.decompressobj().decompress(block, size + 1)


def _unpack_zstd(block: bytes, size: int) -> bytes:
    record = bytearray(size)
    return bytes(record[: cramjam.zstd.decompress_into(block, record)])


def _unpack_snappy(block: bytes, size: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) != size:
        raise ValueError(f"its own size is not the {size} bytes of the header")
    return bytes(cramjam.snappy.decompress_raw(block))


def _pack_lz4(record: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(record, store_size=False))


def _pack_zlib(record: bytes) -> bytes:
    deflate = zlib.compressobj()
    return deflate.compress(record) + deflate.flush(zlib.Z_SYNC_FLUSH)


def _pack_zstd(record: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(record))


def _pack_snappy(record: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(record))


_UNPACK: dict[CompressionType, Callable[[bytes, int], bytes]] = {
    CompressionType.NONE: _unpack_none,
    CompressionType.LZ4: _unpack_lz4,
    CompressionType.ZLIB: _unpack_zlib,
    CompressionType.ZSTD: _unpack_zstd,
    CompressionType.SNAPPY: _unpack_snappy,
}
_PACK: dict[CompressionType, Callable[[bytes], bytes]] = {
    CompressionType.NONE: bytes,
    CompressionType.LZ4: _pack_lz4,
    CompressionType.ZLIB: _pack_zlib,
    CompressionType.ZSTD: _pack_zstd,
    CompressionType.SNAPPY: _pack_snappy,
}
