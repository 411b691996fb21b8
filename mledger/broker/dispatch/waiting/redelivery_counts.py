"""How often entries were delivered before: exact, and only for those that were (D3)."""

from collections.abc import Sequence

from pyroaring import BitMap

from mledger.broker.dispatch.waiting.position_set import entries_at
from mledger.metastore.records.position import Position


class RedeliveryCounts:
    """The redelivery counts of entries that were taken back from a consumer."""

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[int, tuple[BitMap, dict[int, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __len__(self) -> int:
        return sum(len(counts) for _, counts in self._ledgers.values())

    def taken_back(self, ledger_id: int, entries: BitMap) -> None:
        """Entries that were delivered were taken back: their next delivery counts one more."""
        bits, counts = self._ledgers.setdefault(ledger_id, (BitMap(), {}))
        bits |= entries
        for entry in entries:
            counts[entry] = counts.get(entry, 0) + 1

    def of(self, ledger_id: int, first_entry: int, indexes: range | list[int]) -> Sequence[int] | None:
        """The counts of the entries at `indexes` of a run; None if all are 0."""
        kept = self._ledgers.get(ledger_id)
        if kept is None:
            return None
        bits, counts = kept
        if isinstance(indexes, range):
            if not bits.range_cardinality(first_entry + indexes.start, first_entry + indexes.stop):
                return None
        elif not bits.intersect(entries_at(first_entry, indexes)):
            return None
        return [counts.get(first_entry + index, 0) for index in indexes]

    def forget(self, ledger_id: int, entries: BitMap) -> None:
        """Entries are acknowledged."""
        kept = self._ledgers.get(ledger_id)
        if kept is None:
            return
        bits, counts = kept
        gone = bits & entries
        for entry in gone:
            del counts[entry]
        bits -= gone
        if not bits:
            del self._ledgers[ledger_id]

    def forget_to(self, position: Position) -> None:
        """Every entry up to `position` is acknowledged."""
        for ledger_id in [ledger_id for ledger_id in self._ledgers if ledger_id <= position.ledger_id]:
            if ledger_id < position.ledger_id:
                del self._ledgers[ledger_id]
            else:
                self.forget(ledger_id, entries_at(0, range(position.entry_id + 1)))
