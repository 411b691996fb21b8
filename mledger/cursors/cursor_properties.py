"""A cursor's own properties, the ledgers that they name, and which properties of either kind a record can hold."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from threading import get_ident

from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.config import CURSOR_ZNODE_LIMIT
from mledger.cursors.acks.ack_records import Properties, znode_record
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor_attributes import CursorAttributes
from mledger.cursors.persistence.cursor_persistence import CursorPersistence
from mledger.errors import InvalidProperties
from mledger.ledgers.ledger_factory import CustomMetadata
from mledger.ledgers.loop_thread import other_thread
from mledger.ledgers.orphans.pending_records import bucket_ledgers, compacted_ledgers
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import DELAYED_BUCKET, INTERNAL_PROPERTY

_ANY_LEDGER = str(2**63 - 1)


def check_properties(properties: Properties, cursor_properties: tuple[tuple[str, str], ...]) -> None:
    """Raise InvalidProperties unless records can hold both: else the state would never be durable (C5)."""
    for key, value in properties:
        if not isinstance(key, str) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise InvalidProperties(
                f"property {key!r:.100} of the position is {value!r:.100}: give text keys and 64-bit integer values"
            )
    for key, text in cursor_properties:
        if not isinstance(key, str) or not isinstance(text, str):
            raise InvalidProperties(f"property {key!r:.100} of the cursor is {text!r:.100}: give text keys and values")
    if znode_record(AckState(Position(0, NO_ENTRY)), properties, cursor_properties, 0) is None:
        raise InvalidProperties(
            f"the properties of the position and of the cursor do not fit into the cursor's record of "
            f"{CURSOR_ZNODE_LIMIT:,} bytes: give fewer or shorter ones"
        )


class CursorProperties(CursorAttributes):
    """The part of a cursor that changes its own properties."""

    name: str
    _stopped: MledgerError | None
    _thread: int

    def check(self) -> None:
        """Raise the error that stopped the cursor, if any, and RuntimeError in another thread."""
        if get_ident() != self._thread:
            raise other_thread()
        if self._stopped is not None:
            raise self._stopped

    def set_cursor_properties(self, properties: dict[str, str]) -> "asyncio.Future[None]":
        """Replace the cursor's own properties; done when durable in its record.

        Those that brokers set (`#pulsar.internal.…`) stay unless `properties` has them, as in Pulsar: nothing else
        names the ledgers that they name.

        Raises:
            InvalidProperties: no record can hold them.
        """
        self.check()
        of_brokers = {name: text for name, text in self._cursor_properties if name.startswith(INTERNAL_PROPERTY)}
        wanted = tuple({**of_brokers, **properties}.items())
        check_properties(self._properties, wanted)
        self._cursor_properties = wanted
        return self._after_change(True)

    def set_position_properties(self, properties: Mapping[str, int]) -> "asyncio.Future[None]":
        """Replace the properties of the position, which stays; done when durable.

        Raises:
            InvalidProperties: no record can hold them.
        """
        self.check()
        wanted = tuple(properties.items())
        check_properties(wanted, self._cursor_properties)
        changed, self._properties = wanted != self._properties, wanted
        return self._after_change(changed)

    async def attach_ledger(
        self, name: str, custom: CustomMetadata, entries: Sequence[bytes], replacing: Collection[str] = ()
    ) -> int:
        """Write `entries` to a new ledger that the property `name` names; returns its id once that is durable.

        `name` is one of an index of delayed messages. With the same write the properties `replacing` go, and the
        ledgers that they name are recorded for deletion (R10).

        Raises:
            InvalidProperties: the record cannot hold one more.
            BookieError, StoreUnavailable: the ledger cannot be written.
        """
        persistence = self._durable_persistence(name)
        check_properties(self._properties, tuple((self._without(replacing) | {name: _ANY_LEDGER}).items()))
        ledger_id = await persistence.attached.create(custom, entries)
        self.check()
        gone = {*replacing, name}.intersection(self.cursor_properties)
        persistence.attached.drop(bucket_ledgers((each, self.cursor_properties[each]) for each in gone))
        self._cursor_properties = tuple((self._without(replacing) | {name: str(ledger_id)}).items())
        await self._after_change(True)
        return ledger_id

    async def detach_ledgers(self, names: Collection[str], *, delete: bool = True) -> None:
        """Remove these properties and, if `delete`, the ledgers that they name; durable on return."""
        gone = set(names).intersection(self.cursor_properties)
        if not gone:
            return
        persistence = self._durable_persistence(*gone)
        if delete:
            persistence.attached.drop(bucket_ledgers((each, self.cursor_properties[each]) for each in gone))
        self._cursor_properties = tuple(self._without(gone).items())
        await self._after_change(True)

    def made_ledgers(self) -> set[int]:
        """The ledgers that it has made and that go with it; a list that was read before may lack the last of them."""
        if not isinstance(self._persistence, CursorPersistence):
            return set()
        return self._persistence.attached.owned(self._cursor_properties)

    def named_compacted(self) -> set[int]:
        """The ledgers that the last states of compaction's cursor call compacted; none of another cursor.

        They go with it, and a list that was read before may lack the last one: a compaction may have ended since.
        """
        if self.name != COMPACTION or not isinstance(self._persistence, CursorPersistence):
            return set()
        return {*compacted_ledgers(self._properties), *compacted_ledgers(self._persistence.durable.properties)}

    async def open_attached(self, ledger_id: int) -> LedgerReader:
        """Open a ledger that its properties name, to read it. Raises BookieError, StoreUnavailable."""
        self.check()
        if not isinstance(self._persistence, CursorPersistence):
            raise InvalidProperties(f"the cursor {self.name} names no ledger: it is not durable")
        return await self._persistence.attached.open(ledger_id)

    def _without(self, names: Collection[str]) -> dict[str, str]:
        return {name: text for name, text in self._cursor_properties if name not in names}

    def _durable_persistence(self, *names: str) -> CursorPersistence:
        self.check()
        if not isinstance(self._persistence, CursorPersistence):
            raise InvalidProperties(f"the cursor {self.name} has no record that could name a ledger: it is not durable")
        for name in names:
            if not name.startswith(DELAYED_BUCKET):
                raise InvalidProperties(f"property {name!r:.100} cannot name a ledger: begin it with {DELAYED_BUCKET}")
        return self._persistence

    def _after_change(self, changed: bool) -> "asyncio.Future[None]":
        if changed:
            self._persistence.changed()
            self._reads.pass_deleted()
        return self._persistence.request()
