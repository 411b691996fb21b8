"""The end of RocksDB's log after a power loss: a last write of which only some pages reached the disk.

Each commit is one write and one sync, so only the last write can be torn, and it was not answered. RocksDB drops it if
the file ends inside it. If pages are missing in its middle, it takes that for damage and refuses to open.

A log is blocks of 32 KiB of records: CRC32C 4 (masked), length 2, type 1, all little-endian, and the bytes. A write
that does not fit into the rest of a block is a first record, middle ones and a last one.
"""

import os
import re
import struct

import google_crc32c

from mledger.metastore.runtime.durable_files import sync_directory
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

BLOCK = 32 << 10
FIRST, MIDDLE, LAST = 2, 3, 4
_TYPES = range(1, 5)
_HEAD = struct.Struct("<IHB")
_TYPE_AT = _HEAD.size - 1
_MASK = 0xA282EAD8
_LOG = re.compile(r"([0-9]+)\.log")


def cut_torn_write(path: str) -> bool:
    """Cut a torn last write off the log of the RocksDB at `path`, durably; whether there was one. OSError."""
    names = os.listdir(path) if os.path.isdir(path) else []
    logs = {int(found[1]): name for name in names if (found := _LOG.fullmatch(name))}
    if not logs:
        return False
    name = os.path.join(path, logs[max(logs)])
    with open(name, "r+b") as file:
        data = file.read()
        end = plan_cut(data)
        if end is None:
            return False
        file.truncate(end)
        os.fsync(file.fileno())
    sync_directory(path)
    log.warning("torn_write_dropped", log=name, bytes=len(data) - end, reason="it was not answered")
    return True


def plan_cut(data: bytes) -> int | None:
    """Where the last whole write of a log ends, if behind it there are only parts of one; else None.

    A whole write behind a damaged place is proof that the damage is no torn write.
    """
    at = end = 0
    begun = damaged = False
    while at + _HEAD.size <= len(data):
        left = BLOCK - at % BLOCK
        if left < _HEAD.size:
            at += left
            continue
        kind, stop = _record(data, at, at + left)
        if kind is None:
            damaged, begun, at = True, False, _next_record(data, at + 1, at + left)
            continue
        if kind in (MIDDLE, LAST) and not begun:
            damaged = True
        elif kind not in (FIRST, MIDDLE):
            if damaged:
                return None
            end = stop
        begun = kind == FIRST or (kind == MIDDLE and begun)
        at = stop
    return end if damaged else None


def _next_record(data: bytes, start: int, block_end: int) -> int:
    """Where the next whole record of a block begins, from `start` on; the block's end if there is none."""
    for at in range(start, min(block_end, len(data)) - _HEAD.size + 1):
        if data[at + _TYPE_AT] in _TYPES and _record(data, at, block_end)[0] is not None:
            return at
    return block_end


def _record(data: bytes, at: int, block_end: int) -> tuple[int | None, int]:
    """The type of the record at `at` and where it ends; no type if it is damaged."""
    masked, length, kind = _HEAD.unpack_from(data, at)
    stop = at + _HEAD.size + length
    if not kind or stop > min(block_end, len(data)):
        return None, stop
    crc = google_crc32c.value(data[at + _TYPE_AT : stop])
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return (kind, stop) if (rotated + _MASK) & 0xFFFFFFFF == masked else (None, stop)
