"""A file's decompressed bytes (no compression, gzip, or snappy-java's stream), and a window on them.

snappy-java: magic `82 SNAPPY 00`, version and least compatible version (4 bytes each), then blocks of a 4-byte length
and a raw snappy block; another stream may follow the first.
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

import cramjam

from mledger.snapshot.zookeeper_files.errors import CorruptFile, TruncatedFile

CHUNK = 1 << 20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_BLOCK_LIMIT = 1 << 26
_SNAPPY_EXPANSION = 64  # a block of n bytes cannot hold more than this times n


def chunks(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The content of the file `name`, decompressed by its extension, in pieces of about 1 MiB.

    Raises CorruptFile, or TruncatedFile if a compressed stream ends early.
    """
    if name.endswith(".gz"):
        return _gzip(file, name)
    if name.endswith(".snappy"):
        return _snappy(file, name)
    return iter(lambda: file.read(CHUNK), b"")


def _gzip(file: BinaryIO, name: str) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    data = file.read(CHUNK)
    while data:
        try:
            yield stream.decompress(data, CHUNK)
        except zlib.error as error:
            raise CorruptFile(f"{name} is corrupt: {error}", name) from error
        data = stream.unconsumed_tail or stream.unused_data or file.read(CHUNK)
        if stream.eof and data:
            stream = zlib.decompressobj(wbits=31)
    if not stream.eof:
        raise TruncatedFile(f"{name} is truncated: its gzip stream has no end", name)


def _snappy(file: BinaryIO, name: str) -> Iterator[bytes]:
    if _exactly(file, 16, name)[:8] != _SNAPPY_MAGIC:
        raise CorruptFile(f"{name} is corrupt: it does not begin with snappy-java's header", name)
    while head := file.read(4):
        if len(head) == 4 and head == _SNAPPY_MAGIC[:4]:
            _exactly(file, 12, name)
            continue
        length = int.from_bytes(head + _exactly(file, 4 - len(head), name), "big")
        if length > _SNAPPY_BLOCK_LIMIT:
            raise CorruptFile(f"{name} is corrupt: a snappy block of {length} bytes", name)
        yield _snappy_block(_exactly(file, length, name), name)


def _snappy_block(block: bytes, name: str) -> bytes:
    try:
        length = 0
        for index, byte in enumerate(block[:5]):
            length |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        # The decompressor allocates the size that the block claims: a wrong size must not exhaust memory.
        if length > len(block) * _SNAPPY_EXPANSION:
            raise CorruptFile(f"{name} is corrupt: a snappy block claims {length} bytes", name)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptFile(f"{name} is corrupt: {error}", name) from error


def _exactly(file: BinaryIO, length: int, name: str) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = file.read(length - len(data))
        if not more:
            raise TruncatedFile(f"{name} is truncated: it ends within a snappy block", name)
        data += more
    return bytes(data)


class Window:
    """A window on a stream of bytes that moves forward as bytes are used, with the Adler-32 of the used bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._adler = 1
        self.base = 0  # offset in the stream of the window's first byte
        self.data = b""

    def more(self, used: int) -> bool:
        """Drop the first `used` bytes and add what follows; at the end of the stream change nothing and return False.

        The window doubles for a record that does not fit, so that a long record is not copied repeatedly.
        """
        kept = len(self.data) - used
        wanted = max(kept, 1)
        pieces = []
        while wanted > 0:
            piece = next(self._pieces, None)
            if piece is None:
                break
            pieces.append(piece)
            wanted -= len(piece)
        if not any(pieces):
            return False
        self._adler = self.checksum(used)
        self.base += used
        self.data = b"".join((self.data[used:], *pieces))
        return True

    def at_least(self, used: int, length: int) -> bool:
        """Move to `used` and load `length` bytes from there; False if the stream ends before."""
        while len(self.data) - used < length:
            if not self.more(used):
                return False
            used = 0
        if used:
            self._adler = self.checksum(used)
            self.base += used
            self.data = self.data[used:]
        return True

    def remaining(self, used: int) -> Iterator[bytes]:
        """The bytes after the first `used`, piece by piece, to the end of the stream; the window is then empty."""
        yield self.data[used:]
        yield from self._pieces

    def checksum(self, used: int) -> int:
        """Adler-32 of the stream up to the window's byte `used`."""
        return zlib.adler32(memoryview(self.data)[:used], self._adler)
