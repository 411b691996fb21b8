"""Inspects the cursors of topics without opening them: reads their states, and plans what recovery would do (M9, Q3).

Read the states before the ends of the topic's ledgers: in that order, a live owner's cursors are never past the end.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from mledger.bookie.client.ledgers.peek import Peek
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import RecoveryUndecided
from mledger.cursors.persistence.ledger_state import CursorLedgerFinding
from mledger.cursors.persistence.state_reader import StateLedger, find_state
from mledger.cursors.recovery import CursorRecoveryPlan, plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.orphans.foreign_ledgers import check_own
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import cursor_names, managed_ledger_of_cursor
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo
from mledger.metastore.store import MetadataReader, Node

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class CursorInspection:
    """A cursor's record, and what opening the topic would recover; `error` says why that is unknown.

    `path` is that of its record: other programs may escape its name differently.
    """

    name: str
    path: str
    version: int
    record: ManagedCursorInfo | None
    plan: CursorRecoveryPlan | None
    error: MledgerError | None = None


class SeenCursor(NamedTuple):
    """A cursor's record and what its cursor ledger holds; `error` says why they are unknown."""

    name: str
    path: str
    version: int
    record: ManagedCursorInfo | None
    finding: CursorLedgerFinding | None
    error: MledgerError | None = None


class SeenCursorReader:
    """Reads cursors' states; `password` is the ledgers' password, None: each one's own."""

    def __init__(self, store: MetadataReader, bookkeeper: BookKeeperReader, password: bytes | None) -> None:
        self._store = store
        self._bookkeeper = bookkeeper
        self._password = password

    async def read(self, topic: str, cursor: str | None) -> list[SeenCursor]:
        """The states of all cursors of the topic at `topic`, or of one; empty if there is no such topic."""
        (children,) = await self._store.children_many([topic])
        named = {f"{topic}/{child}": name for child, name in cursor_names(children or ()).items()}
        paths = [path for path, name in named.items() if cursor is None or name == cursor]
        nodes = zip(paths, await self._store.get_many(paths), strict=True)
        return await self._states({path: node for path, node in nodes if node is not None}, named)

    async def of_nodes(self, cursors: Mapping[str, Node]) -> list[SeenCursor]:
        """The states of all cursors of one topic, whose nodes have been read already, by path."""
        names = cursor_names(path.rpartition("/")[2] for path in cursors)
        return await self._states(cursors, {path: names[path.rpartition("/")[2]] for path in cursors})

    async def _states(self, nodes: Mapping[str, Node], names: Mapping[str, str]) -> list[SeenCursor]:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def state(path: str, node: Node) -> SeenCursor:
            async with at_once:
                return await self._state(names[path], path, node)

        return await asyncio.gather(*(state(path, node) for path, node in nodes.items()))

    async def _state(self, name: str, path: str, node: Node) -> SeenCursor:
        record: ManagedCursorInfo | None = None
        finding = None
        try:
            record = decode_managed_cursor_info(node.data, path).value
            if record.cursors_ledger_id != NO_CURSOR_LEDGER:
                open_peeked = partial(self._open_peeked, managed_ledger_of_cursor(path))
                finding = await find_state(open_peeked, self._store.sync, record.cursors_ledger_id, _is_unconfirmed)
        except MledgerError as error:
            return SeenCursor(name, path, node.version, record, None, error)
        return SeenCursor(name, path, node.version, record, finding)

    async def _open_peeked(self, managed_ledger: str, ledger_id: int) -> StateLedger:
        check = partial(check_own, managed_ledger, ledger_id)
        return _PeekedLedger((await self._bookkeeper.peek(ledger_id, self._password, check=check)).decided())


class _PeekedLedger:
    """Adapts a peek to the ledger that cursor states are read from."""

    def __init__(self, peek: Peek) -> None:
        self._reader: LedgerReader = peek.reader
        self.last_entry = peek.last_entry
        self.unconfirmed = peek.unconfirmed

    async def read(self, first: int, last: int) -> list[bytes]:
        return await self._reader.read(first, last)


def plan_inspections(
    states: Sequence[SeenCursor], ledgers: LedgerList, undecided: RecoveryUndecided | None
) -> list[CursorInspection]:
    """What opening the topic would do to the cursors, whose states were read before `ledgers`.

    With `undecided` the end of `ledgers` is not known: a state past the one that is seen may be right.
    """
    found = [_inspection(state, ledgers) for state in states]
    if undecided is None:
        return found
    return [
        replace(each, plan=None, error=undecided) if each.plan is not None and _is_cut_short(each.plan) else each
        for each in found
    ]


def _is_cut_short(plan: CursorRecoveryPlan) -> bool:
    """Whether the end of the ledgers left out some of the cursor's state, for all that can be told."""
    return "R7" in plan.rules or bool(plan.warnings)


def _inspection(state: SeenCursor, ledgers: LedgerList) -> CursorInspection:
    name, path, version, record, finding, error = state
    if error is not None or record is None:
        return CursorInspection(name, path, version, record, None, error)
    try:
        plan = plan_cursor_recovery(name, record, finding, ledgers)
    except MledgerError as failed:
        return CursorInspection(name, path, version, record, None, failed)
    return CursorInspection(name, path, version, record, plan)


def _is_unconfirmed(ledger: StateLedger) -> bool:
    return isinstance(ledger, _PeekedLedger) and ledger.unconfirmed
