"""SEND_RECEIPTs of a run of entries, in one piece."""

from collections.abc import Iterable, Sequence
from itertools import count, repeat

from mledger.broker.protocol.requests import NO_SEQUENCE
from mledger.broker.protocol.varints import varint


def send_receipts(
    producer_id: int, ledger_id: int, first_entry: int, sequence_ids: Sequence[int], highest_ids: Sequence[int]
) -> bytes:
    """The receipts for entries of one ledger that follow each other from `first_entry` on.

    A receipt has the sequence id of its SEND, and its highest sequence id unless that is NO_SEQUENCE.
    """
    return _receipts(producer_id, ledger_id, count(first_entry), sequence_ids, highest_ids)


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
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    parts: list[bytes] = []
    lengths, head, middle = (0, 0, 0), b"", b""
    for sequence_id, highest_id, entry_id in zip(sequence_ids, highest_ids, entry_ids, strict=False):
        sequence, entry = varint(sequence_id), varint(entry_id)
        highest = b"" if highest_id == NO_SEQUENCE else b"\x20" + varint(highest_id)
        if (len(sequence), len(entry), len(highest)) != lengths:  # else what stands between them is the same
            lengths = len(sequence), len(entry), len(highest)
            middle = b"\x1a" + varint(len(ledger) + len(entry)) + ledger
            body = len(producer) + len(middle) + sum(lengths)
            command = b"\x08\x07\x3a" + varint(body)
            size = len(command) + body
            head = (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + command + producer
        parts += head, sequence, middle, entry, highest
    return b"".join(parts)
