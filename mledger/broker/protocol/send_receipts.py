"""SEND_RECEIPTs of a run of entries, in one piece."""

from collections.abc import Iterable, Sequence
from itertools import count, repeat

import numpy
from numpy.typing import NDArray

from mledger.broker.protocol.requests import NO_SEQUENCE
from mledger.broker.protocol.varints import varint

_MANY = 64  # receipts from which on arrays are faster than a loop


def send_receipts(
    producer_id: int, ledger_id: int, first_entry: int, sequence_ids: Sequence[int], highest_ids: Sequence[int]
) -> bytes:
    """The receipts for entries of one ledger that follow each other from `first_entry` on.

    A receipt has the sequence id of its SEND, and its highest sequence id unless that is NO_SEQUENCE.
    """
    number = len(sequence_ids)
    if number >= _MANY and highest_ids.count(NO_SEQUENCE) == number:
        first = sequence_ids[0]
        if first >= 0 and sequence_ids == list(range(first, first + number)):
            return _consecutive(producer_id, ledger_id, first_entry, first, number)
    return _receipts(producer_id, ledger_id, count(first_entry), sequence_ids, highest_ids)


def _consecutive(producer_id: int, ledger_id: int, first_entry: int, first_sequence: int, number: int) -> bytes:
    """The receipts of entries and of sequence ids that both rise by one, in blocks of receipts of one length."""
    parts: list[bytes] = []
    while number > 0:
        entry_end, sequence_end = _same_length_until(first_entry), _same_length_until(first_sequence)
        rows = min(number, entry_end - first_entry, sequence_end - first_sequence)
        one = _receipts(producer_id, ledger_id, [first_entry], [first_sequence], [NO_SEQUENCE])
        entry_size, sequence_size = len(varint(first_entry)), len(varint(first_sequence))
        sequence_at = len(one) - entry_size - len(_middle(ledger_id, entry_size)) - sequence_size
        block = numpy.tile(numpy.frombuffer(one, numpy.uint8), (rows, 1))
        _put_varints(block[:, sequence_at : sequence_at + sequence_size], first_sequence)
        _put_varints(block[:, len(one) - entry_size :], first_entry)
        parts.append(block.tobytes())
        first_entry, first_sequence, number = first_entry + rows, first_sequence + rows, number - rows
    return b"".join(parts)


def _same_length_until(value: int) -> int:
    """The first number above `value` whose varint is longer."""
    return 1 << max(7 * -(-value.bit_length() // 7), 7)


def _put_varints(columns: NDArray[numpy.uint8], first: int) -> None:
    """Write the varints of the numbers from `first` on, all of one length, a row each."""
    rows, size = columns.shape
    numbers = numpy.arange(first, first + rows, dtype=numpy.uint64)
    for column in range(size):
        more = 0x80 if column < size - 1 else 0
        columns[:, column] = numbers >> numpy.uint64(7 * column) & numpy.uint64(0x7F) | numpy.uint64(more)


def unstored_receipts(
    producer_id: int, ledger_id: int, entry_id: int, sequence_ids: Sequence[int], highest_ids: Sequence[int]
) -> bytes:
    """The receipts for entries that are in no ledger: all have the same id. The rest is as in `send_receipts`."""
    return _receipts(producer_id, ledger_id, repeat(entry_id), sequence_ids, highest_ids)


def _receipts(
    producer_id: int,
    ledger_id: int,
    entry_ids: Iterable[int],
    sequence_ids: Sequence[int],
    highest_ids: Sequence[int],
) -> bytes:
    producer = b"\x08" + varint(producer_id) + b"\x10"
    parts: list[bytes] = []
    lengths, head, middle = (0, 0, 0), b"", b""
    for sequence_id, highest_id, entry_id in zip(sequence_ids, highest_ids, entry_ids, strict=False):
        sequence, entry = varint(sequence_id), varint(entry_id)
        highest = b"" if highest_id == NO_SEQUENCE else b"\x20" + varint(highest_id)
        if (len(sequence), len(entry), len(highest)) != lengths:  # else what stands between them is the same
            lengths = len(sequence), len(entry), len(highest)
            middle = _middle(ledger_id, len(entry))
            body = len(producer) + len(middle) + sum(lengths)
            command = b"\x08\x07\x3a" + varint(body)
            size = len(command) + body
            head = (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + command + producer
        parts += head, sequence, middle, entry, highest
    return b"".join(parts)


def _middle(ledger_id: int, entry_size: int) -> bytes:
    """What stands between the sequence id and the entry id, whose varint has `entry_size` bytes."""
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    return b"\x1a" + varint(len(ledger) + entry_size) + ledger
