"""Reads ZooKeeper's transaction logs.

Form: header (magic, version, database id), then records: Adler-32 of the record (8 bytes), length (4), record, `B`.
Files are preallocated: zeros follow the last record. The record that a server was writing when it died may be torn: the
file ends within it, or zeros begin within it. Anything else that does not fit is corruption. A torn record was never
acknowledged, so the tree is exact without it; the reader reports a torn end.

Zxids rise by one within an epoch (the upper 32 bits); a new epoch's first transaction is number 1.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence

from mledger.snapshot.zookeeper_files.errors import CorruptFile, MissingLog, ZxidNotCovered
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import (
    FILE_HEADER,
    FILE_VERSION,
    MAX_LENGTH,
    JuteError,
    Transaction,
    TransactionHeader,
    decode_header,
    decode_transaction,
)
from mledger.snapshot.zookeeper_files.streams import CHUNK, Window, chunks

_NAME = re.compile(r"log\.([0-9a-f]{1,16})")
_MAGIC = b"ZKLG"
_PREFIX = struct.Struct(">qi")  # checksum, length
_END = b"B"
_COUNTER = (1 << 32) - 1


def log_zxid(name: str) -> int | None:
    """The zxid in a log file's name, that of its first transaction; None if it is not one."""
    match = _NAME.fullmatch(name)
    return int(match[1], 16) if match else None


def follows(zxid: int, next_zxid: int) -> bool:
    """Whether no transaction can be missing in between: the next number, or the first of a later epoch."""
    return next_zxid == zxid + 1 or (next_zxid >> 32 > zxid >> 32 and next_zxid & _COUNTER == 1)


class LogFile:
    """A log file of `files`, which is read on demand."""

    def __init__(self, files: DataFiles, name: str) -> None:
        zxid = log_zxid(name)
        if zxid is None:
            raise CorruptFile(f"{name} is not a log file's name: log.<zxid in hex>", name)
        self._files = files
        self.name = name
        self.zxid = zxid
        self.torn_at: int | None = None  # the offset of a torn record, set when the end has been read

    def headers(self) -> Iterator[TransactionHeader]:
        """The headers of all records in order; CorruptFile."""
        for header, _, _ in self._records():
            yield header

    def transactions(self, after: int) -> Iterator[Transaction]:
        """The transactions with a zxid above `after`, in order; checksums of all are verified. CorruptFile."""
        for header, record, offset in self._records():
            if header.zxid > after:
                try:
                    yield decode_transaction(record)
                except JuteError as error:
                    raise self._corrupt(offset, f"zxid {header.zxid:#x} does not parse: {error}") from error

    def _records(self) -> Iterator[tuple[TransactionHeader, bytes, int]]:
        last = -1
        with self._files.open(self.name) as file:
            window = Window(chunks(file, self.name))
            for record, offset in self._frames(window):
                try:
                    header = decode_header(record)
                except JuteError as error:
                    raise self._corrupt(offset, str(error)) from error
                if last < 0 and header.zxid != self.zxid:
                    raise self._corrupt(offset, f"its first zxid is {header.zxid:#x}: the file was renamed")
                if header.zxid <= last:
                    raise self._corrupt(offset, f"zxid {header.zxid:#x} comes after {last:#x}")
                last = header.zxid
                yield header, record, offset

    def _frames(self, window: Window) -> Iterator[tuple[bytes, int]]:
        """Each record and its offset, with verified checksums, up to the end of what was written."""
        if not window.at_least(0, FILE_HEADER.size) and _MAGIC.startswith(window.data[: len(_MAGIC)]):
            self.torn_at = 0  # the server died before the header was written
            return
        magic, version, _ = FILE_HEADER.unpack(window.data[: FILE_HEADER.size].ljust(FILE_HEADER.size, b"\0"))
        if magic != _MAGIC or version != FILE_VERSION:
            raise self._corrupt(0, f"it begins with {magic!r}, version {version}, unlike ZooKeeper's logs")
        at = FILE_HEADER.size
        while True:
            data = window.data
            start = at + _PREFIX.size
            if start <= len(data):
                checksum, length = _PREFIX.unpack_from(data, at)
                end = start + length
                if 0 < length <= MAX_LENGTH and end < len(data):
                    if data[end : end + 1] != _END:
                        break
                    record = data[start:end]
                    if zlib.adler32(record) != checksum:
                        raise self._corrupt(window.base + at, "the checksum of the record there is wrong")
                    yield record, window.base + at
                    at = end + 1
                    continue
                if not 0 < length <= MAX_LENGTH:
                    break
            if not window.more(at):
                break
            at = 0
        self._read_end(window, at)

    def _read_end(self, window: Window, at: int) -> None:
        """Check that from `at` on there are only zeros, or a torn record and zeros; CorruptFile."""
        offset = window.base + at
        rest = bytearray()
        zeros = 0
        for piece in window.remaining(at):
            content = piece.rstrip(b"\0")
            if content:
                rest += bytes(zeros) + content
                zeros = 0
            zeros += len(piece) - len(content)
            if len(rest) > MAX_LENGTH + _PREFIX.size:
                break
        why = _why_not_torn(bytes(rest)) if rest else ""
        if why and not self._grew(offset, rest):
            raise self._corrupt(offset, why)
        if rest and not why:
            self.torn_at = offset

    def _grew(self, offset: int, seen: bytearray) -> bool:
        """Whether a server is writing to the file: the bytes at `offset` differ from those read a moment ago."""
        with self._files.open(self.name) as file:
            file.seek(offset)
            now = file.read(min(len(seen), CHUNK))
        return now != seen[: len(now)]

    def _corrupt(self, offset: int, what: str) -> CorruptFile:
        return CorruptFile(
            f"{self.name} is corrupt at byte {offset}: {what}; take another copy of it, another server's files, or an "
            "earlier zxid",
            self.name,
        )


def _why_not_torn(rest: bytes) -> str:
    """Why `rest`, all bytes from a record's start on, cannot be a torn record; empty if it can.

    A torn record is the beginning of a record with nothing after the record's length. If the bytes hold a shorter
    complete record instead, its length was changed, and what follows must not be dropped silently.
    """
    checksum, length = _PREFIX.unpack(rest[: _PREFIX.size].ljust(_PREFIX.size, b"\0"))
    if length == 0 and len(rest) <= 8:
        return ""
    if not 0 < length <= MAX_LENGTH:
        return f"a record of {length} bytes"
    if len(rest) > _PREFIX.size + length:
        return "the end mark of the record there is wrong"
    adler, begun = 1, _PREFIX.size
    while (mark := rest.find(_END, begun)) >= 0:
        adler = zlib.adler32(rest[begun:mark], adler)
        if adler == checksum and mark > _PREFIX.size:
            return "the length of the record there is wrong"
        adler, begun = zlib.adler32(_END, adler), mark + 1
    return ""


def read_chain(files: DataFiles, names: Sequence[str], after: int, until: int) -> Iterator[Transaction]:
    """The transactions above zxid `after` up to `until` from the log files `names`, in order and without gaps.

    Raises MissingLog if the files lack some of them, ZxidNotCovered if the files end before `until`, CorruptFile.
    """
    last = after
    if last == until:
        return
    for name in names:
        for transaction in LogFile(files, name).transactions(after):
            if transaction.zxid > until:
                break
            check_follows(last, transaction.zxid, name)
            last = transaction.zxid
            yield transaction
            if last == until:
                return
    raise ZxidNotCovered(
        f"the logs in {files.where} end at zxid {last:#x}, before {until:#x}: a log was removed or changed meanwhile; "
        "read again"
    )


def check_follows(last: int, zxid: int, name: str) -> None:
    """Raise CorruptFile if the log `name` repeats transactions, MissingLog if it leaves out some after `last`."""
    if zxid <= last:
        raise CorruptFile(
            f"{name} repeats zxid {zxid:#x} after {last:#x}: two histories are mixed; leave one server's logs there",
            name,
        )
    if not follows(last, zxid):
        raise missing_log(last, zxid, name)


def missing_log(last: int, next_zxid: int, name: str) -> MissingLog:
    """The error for transactions between two zxids that are in no file."""
    return MissingLog(
        f"the transactions after zxid {last:#x} are missing: {name} continues with {next_zxid:#x}; add the log file "
        "that holds them, or choose a point before them, or after a later snapshot",
        name,
    )
