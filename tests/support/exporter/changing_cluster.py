"""A cluster's metadata that changes at random, and the figures of a round as a value that can be compared."""

import random

from mledger.exporter.cluster_figures import ClusterFigures
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import ANY_VERSION, Create, Delete, MetadataStore, Put

FOLDERS = ("a/one/persistent", "a/two/persistent", "b/old/one/persistent", "b/new/segment/whole")
TOPICS = 12
CURSORS = 3


class ChangingCluster:
    """Topics and cursors below a few folders; `store` writes them, `chance` decides what."""

    def __init__(self, store: MetadataStore, chance: random.Random) -> None:
        self._store, self._chance = store, chance
        self._cursors: dict[str, set[str]] = {}

    async def change(self, times: int) -> None:
        """Create, change and delete nodes so many times, some of them together."""
        for _ in range(times):
            await self._change()

    async def _change(self) -> None:
        chance = self._chance
        path = f"/managed-ledgers/{chance.choice(FOLDERS)}/t%2F{chance.randrange(TOPICS)}"
        cursors = self._cursors.get(path)
        if cursors is None:
            await self._store.create(path, self._topic(), parents=True)
            self._cursors[path] = set()
            return
        cursor = f"c{chance.randrange(CURSORS)}"
        match chance.randrange(8):
            case 0:
                await self._store.multi([*(Delete(f"{path}/{each}") for each in cursors), Delete(path)])
                del self._cursors[path]
            case 1:
                await self._store.put(path, self._topic(), ANY_VERSION)
            case 2 if cursor in cursors:
                await self._store.multi([Put(path, self._topic(), ANY_VERSION), Delete(f"{path}/{cursor}")])
                cursors.discard(cursor)
            case 3 if cursor in cursors:
                await self._store.delete(f"{path}/{cursor}")
                cursors.discard(cursor)
            case _ if cursor in cursors:
                await self._store.put(f"{path}/{cursor}", self._cursor(), ANY_VERSION)
            case _:
                await self._store.multi([Create(f"{path}/{cursor}", self._cursor())])
                cursors.add(cursor)

    def _topic(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.05:
            return b"\xff no record"
        entries = [chance.randrange(1, 100) for _ in range(chance.randrange(4))]
        closed = [LedgerInfo(number, count, 10 * count, 1000 + number) for number, count in enumerate(entries)]
        return encode_managed_ledger_info(ManagedLedgerInfo((*closed, LedgerInfo(len(closed)))))

    def _cursor(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.05:
            return b"\xff"
        mark = Position(chance.randrange(4), chance.randrange(-1, 50))
        ranges = ((Position(mark.ledger_id, mark.entry_id + 3), Position(mark.ledger_id, mark.entry_id + 5)),)
        ledger = chance.choice((-1, 77))
        return encode_managed_cursor_info(
            ManagedCursorInfo(ledger, mark_delete=mark, ranges=ranges[: chance.randrange(2)])
        )


def comparable(figures: ClusterFigures) -> tuple[object, ...]:
    """All that a round has found."""
    ranked = [worst.worst_first() for worst in (figures.backlogs, figures.ages, figures.holes)]
    return (
        figures.namespaces,
        ranked,
        figures.sizes,
        +figures.unreadable,
        figures.bookies,
        figures.marks,
        figures.orphans,
    )
