"""What a consumer holds: entries sent to it and not yet acknowledged (D1, D3, D4).

Runs stay runs: a delivery of consecutive entries of one message each is one range of a bitmap and one reference to
its key hashes. Messages of batches are kept apart, and hashes are looked up only when somebody asks.
"""

from collections.abc import Mapping, Sequence

from pyroaring import BitMap

from mledger.broker.dispatch.waiting.position_set import MAX_ENTRY, PositionSet, run
from mledger.metastore.records.position import Position

_LOOSE = 4_096  # hashes that may be kept beyond those of the entries held


class _HeldEntries:
    """The entries of one ledger that a consumer holds."""

    __slots__ = ("batches", "bits", "hash_runs", "hashed", "hashes")

    def __init__(self) -> None:
        self.bits = BitMap()
        self.batches: dict[int, int] = {}  # the messages left of entries that may have more than one
        self.hash_runs: list[tuple[int, Sequence[int]]] = []
        self.hashed = 0  # entries in hash_runs
        self.hashes: dict[int, int] = {}

    def settle(self) -> None:
        """Look up the hashes of the runs, and let go of them."""
        for first, values in self.hash_runs:
            self.hashes.update(zip(range(first, first + len(values)), values, strict=True))
        self.hash_runs, self.hashed = [], 0

    def prune(self) -> None:
        """Let go of the hashes of entries that are not held any more."""
        self.settle()
        hashes = self.hashes
        self.hashes = {entry: hashes[entry] for entry in self.bits if entry in hashes}


class PendingEntries:
    """Entries that one consumer holds, with their messages and, where asked, the hashes of their keys."""

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[int, _HeldEntries] = {}

    def __len__(self) -> int:
        return sum(len(held.bits) for held in self._ledgers.values())

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __contains__(self, position: tuple[int, int]) -> bool:
        held = self._ledgers.get(position[0])
        return held is not None and position[1] in held.bits

    def positions(self) -> PositionSet:
        """All of them."""
        found = PositionSet()
        for ledger_id, held in self._ledgers.items():
            found.add(ledger_id, held.bits)
        return found

    def bits(self, ledger_id: int) -> BitMap:
        """The entries of a ledger that are held; the bitmap must not be changed."""
        held = self._ledgers.get(ledger_id)
        return BitMap() if held is None else held.bits

    def messages(self, position: Position) -> int:
        """How many messages of an entry are not acknowledged; 0 if it is not held."""
        held = self._ledgers.get(position.ledger_id)
        if held is None or not 0 <= position.entry_id <= MAX_ENTRY or position.entry_id not in held.bits:
            return 0
        return held.batches.get(position.entry_id, 1)

    def hold(
        self,
        ledger_id: int,
        first_entry: int,
        indexes: range | list[int],
        batches: Sequence[int] | None,
        hashes: Sequence[int] | None = None,
    ) -> None:
        """Entries at `indexes` of a run are sent.

        `batches` are the messages of each, None if all have one; `hashes` are those of the whole run, or None.
        """
        held = self._ledgers.get(ledger_id)
        if held is None:
            held = self._ledgers[ledger_id] = _HeldEntries()
        if isinstance(indexes, range):
            first, stop = first_entry + indexes.start, first_entry + indexes.stop
            held.bits.add_range(first, stop)
            entries: Sequence[int] = range(first, stop)
            if hashes is not None:
                whole = len(hashes) == len(indexes)
                held.hash_runs.append((first, hashes if whole else hashes[indexes.start : indexes.stop]))
                held.hashed += len(indexes)
        else:
            entries = [first_entry + index for index in indexes]
            held.bits.update(entries)
            if hashes is not None:
                held.hashes.update(zip(entries, [hashes[index] for index in indexes], strict=True))
        if batches is not None:
            held.batches.update(zip(entries, batches, strict=True))
        if held.hashed + len(held.hashes) > 2 * len(held.bits) + _LOOSE:
            held.prune()

    def take(self, ledger_id: int, entries: BitMap) -> tuple[BitMap, int]:
        """Entries are no longer held; returns those that were, and how many messages they had left."""
        held = self._ledgers.get(ledger_id)
        if held is None:
            return BitMap(), 0
        gone = held.bits & entries
        if not gone:
            return gone, 0
        held.bits -= gone
        batches = held.batches
        messages = sum([batches.pop(entry, 1) for entry in gone]) if batches else len(gone)
        if not held.bits:
            del self._ledgers[ledger_id]
        return gone, messages

    def take_part(self, position: Position, messages: int) -> int:
        """So many messages of a batch are acknowledged; returns how many of them it had left."""
        left = self.messages(position)
        if not left:
            return 0
        if messages >= left:
            return self.take(position.ledger_id, run(position.entry_id, position.entry_id + 1))[1]
        self._ledgers[position.ledger_id].batches[position.entry_id] = left - messages
        return messages

    def hashes(self, ledger_id: int) -> Mapping[int, int]:
        """The key hashes of a ledger's entries, by entry id: at least of those that are held."""
        held = self._ledgers.get(ledger_id)
        if held is None:
            return {}
        if held.hash_runs:
            held.settle()
        return held.hashes

    def hashes_of(self, ledger_id: int, entries: BitMap) -> list[int]:
        """The key hashes of entries that are held, in order."""
        known = self.hashes(ledger_id)
        return [known[entry] for entry in entries]

    def clear(self) -> None:
        """Nothing is held any more."""
        self._ledgers.clear()
