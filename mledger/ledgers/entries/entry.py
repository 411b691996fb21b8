"""Entries of a topic, as readers receive them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mledger.metastore.records.position import Position


class Entry(NamedTuple):
    """An entry: its position and its payload."""

    position: Position
    payload: bytes


class PayloadRun(NamedTuple):
    """Payloads of consecutive entries of one ledger; readers share them and must not change them."""

    ledger_id: int
    first_entry: int
    payloads: Sequence[bytes]


def entries_of(runs: Iterable[PayloadRun]) -> list[Entry]:
    """The entries of `runs`, one by one."""
    return [
        Entry(Position(run.ledger_id, entry), payload)
        for run in runs
        for entry, payload in enumerate(run.payloads, run.first_entry)
    ]
