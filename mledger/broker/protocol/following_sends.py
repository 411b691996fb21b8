"""SENDs behind another one that differ from it in the entry and in a sequence id one higher: compared, not parsed.

Only the first byte of the sequence id may change. What is corrupt or otherwise different ends the run.
"""

from struct import Struct

import google_crc32c
import numpy

from mledger.messages.pulsar_message import CHECKSUM_MAGIC

PRODUCER_AT, SEQUENCE_AT = 13, 15
"""Where these stand in the frame of a SEND whose producer's number has one byte."""

_SIZE = Struct(">I")
_CHECKED = Struct(">2sI")  # magic, checksum
_SMALLEST_ENTRY = 10  # magic, checksum, size of the metadata
_FEWEST_AS_BLOCK = 8

_checksum = google_crc32c.value


def is_corrupt(entry: bytes) -> bool:
    """Whether an entry that says its checksum does not have it."""
    return entry.startswith(CHECKSUM_MAGIC) and (
        len(entry) < _SMALLEST_ENTRY or _checksum(entry[6:]) != int.from_bytes(entry[2:6], "big")
    )


def following_sends(data: bytes, at: int, command_end: int, stop: int, most: int) -> tuple[list[bytes], int]:
    """The entries of the SENDs from `stop` on that go on with the one at `at`, and where the last of them ends.

    `command_end` is where that one's command ends; no frame's size exceeds `most`.
    """
    low = data[at + SEQUENCE_AT]
    entries = _equal_frames(data, at, command_end, stop, (low | 0x7F) - low)
    stop += len(entries) * (stop - at)
    before, behind = data[at + 4 : at + SEQUENCE_AT], data[at + SEQUENCE_AT + 1 : command_end]
    head, unpack = command_end - at, _SIZE.unpack_from
    for following in range(low + 1 + len(entries), (low | 0x7F) + 1):
        at, body = stop, stop + head
        if body > len(data) or data[at + SEQUENCE_AT] != following:
            break
        if not (data.startswith(before, at + 4) and data.startswith(behind, at + SEQUENCE_AT + 1)):
            break
        size = unpack(data, at)[0]
        end = at + 4 + size
        entry = data[body:end]
        if not body <= end <= len(data) or size > most or is_corrupt(entry):
            break
        entries.append(entry)
        stop = end
    return entries, stop


def _equal_frames(data: bytes, at: int, command_end: int, stop: int, most_frames: int) -> list[bytes]:
    """The first of these entries, as long as their frames have the size of the one at `at`."""
    size, head = stop - at, command_end - at
    rows = min((len(data) - stop) // size, most_frames)
    if rows < _FEWEST_AS_BLOCK or size - head < _SMALLEST_ENTRY:
        return []
    first = numpy.frombuffer(data, numpy.uint8, head, at)
    heads = numpy.frombuffer(data, numpy.uint8, rows * size, stop).reshape(rows, size)[:, : head + _CHECKED.size]
    equal = heads[:, :head] == first
    following = data[at + SEQUENCE_AT] + 1
    equal[:, SEQUENCE_AT] = heads[:, SEQUENCE_AT] == numpy.arange(following, following + rows)
    alike = equal.all(1)
    if not alike.all():
        rows = int(alike.argmin())
    entries = [data[body : body + size - head] for body in range(stop + head, stop + head + rows * size, size)]
    checked = _CHECKED.iter_unpack(heads[:rows, head:].tobytes())
    for row, (entry, (magic, checksum)) in enumerate(zip(entries, checked, strict=True)):
        if magic == CHECKSUM_MAGIC and _checksum(entry[6:]) != checksum:
            return entries[:row]
    return entries
