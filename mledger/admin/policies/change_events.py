"""Reads the policy events of a namespace (M10), read-only: it fences and writes nothing.

The compacted ledger of `__change_events` holds what compaction kept; the ledgers after the compaction horizon hold what
came since. A reader keeps what it has read and continues from there; it reads the unconfirmed tail of the last ledger
again each time.
"""

from collections.abc import AsyncIterator, Callable

from mledger.admin.inspect import Inspector
from mledger.admin.policies.policy_events import AvroSchema, PolicyTable, decode_schema, schema_position
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.errors import CursorNotFound
from mledger.ledgers.orphans.pending_records import compacted_ledgers
from mledger.ledgers.orphans.references import SCHEMAS
from mledger.messages.pulsar_message import PulsarEntry, decode_compacted_entry, decode_entry
from mledger.metastore.errors import NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.store import MetadataReader

COMPACTION = "__compaction"
READ_ENTRIES = 1000
READ_BYTES = 4 << 20
ATTEMPTS = 3
START = Position(NO_ENTRY, NO_ENTRY)


class ChangeEvents:
    """The events of one topic `__change_events`, or of one partition of it; `password` is that of its ledgers.

    None: each ledger's own.

    If it cannot be told whether there is one more event, reading fails: that event may be what keeps a topic.
    """

    def __init__(
        self, store: MetadataReader, bookkeeper: BookKeeperReader, topic: TopicName, password: bytes | None = None
    ) -> None:
        self._store = store
        self._bookkeeper = bookkeeper
        self._topic = topic
        self._password = password
        self._schemas = _Schemas(store, bookkeeper, topic)
        self._settled = PolicyTable()
        self._read_to = START

    async def read(self) -> PolicyTable:
        """The policies after all events so far. RecordError, BookieError, StoreUnavailable."""
        for attempt in range(ATTEMPTS):
            try:
                return await self._read()
            except NoSuchLedger as error:  # trimmed, or compacted again, meanwhile
                self._begin_again()
                if attempt == ATTEMPTS - 1:
                    raise RecordError(f"{self._topic} lists a ledger that does not exist: {error}") from error
        raise AssertionError("the last attempt returned or raised")

    async def _read(self) -> PolicyTable:
        path = self._topic.managed_ledger_path
        try:
            node = await self._store.get(path)
        except NodeNotFound:
            self._begin_again()
            return PolicyTable()
        ledgers = [ledger.ledger_id for ledger in decode_managed_ledger_info(node.data, path).value.ledgers]
        if self._read_to.ledger_id not in ledgers:
            self._begin_again()
            await self._read_compacted()
        table = self._settled.copy()
        for ledger_id in ledgers:
            if ledger_id < self._read_to.ledger_id:
                continue
            first = self._read_to.entry_id + 1 if ledger_id == self._read_to.ledger_id else 0
            peek = (await self._bookkeeper.peek(ledger_id, self._password)).decided()
            # Java lists the next ledger even if it could not close this one: then its end is not in its metadata
            settled = peek.last_add_confirmed if ledger_id == ledgers[-1] else peek.last_entry
            await self._apply(self._settled, peek.reader, first, min(settled, peek.last_entry))
            self._read_to = max(self._read_to, Position(ledger_id, settled))
            table = self._settled.copy()
            await self._apply(table, peek.reader, max(first, settled + 1), peek.last_entry)
        return table

    async def _read_compacted(self) -> None:
        """Start from what the last compaction kept, if there was one."""
        try:
            inspector = Inspector(self._store, self._bookkeeper, self._password)
            (found,) = await inspector.cursors(str(self._topic), COMPACTION)
        except CursorNotFound:
            return
        if found.plan is None:
            assert found.error is not None
            raise found.error
        for compacted in compacted_ledgers(found.plan.properties):
            try:
                peek = (await self._bookkeeper.peek(compacted)).decided()
            except NoSuchLedger:
                raise NoSuchLedger(
                    f"ledger {compacted} with what compaction kept of {self._topic} does not exist any more: to begin "
                    "anew with the events that the topic still has, have it compacted, and then set what is missing"
                ) from None
            await self._apply(self._settled, peek.reader, 0, peek.last_entry, _compacted)
            self._read_to = found.plan.mark_delete

    async def _apply(
        self,
        table: PolicyTable,
        reader: LedgerReader,
        first: int,
        last: int,
        decode: Callable[[bytes, str], PulsarEntry] = decode_entry,
    ) -> None:
        async for entry, payload in _entries(reader, first, last):
            where = f"entry {entry} of ledger {reader.ledger_id} of {self._topic}"
            decoded = decode(payload, where)
            schema = await self._schemas.of(decoded.metadata.schema_version)
            table.apply(decoded, schema, where)

    def _begin_again(self) -> None:
        self._settled, self._read_to = PolicyTable(), START


class _Schemas:
    """The schemas of the events, by version; each is read once."""

    def __init__(self, store: MetadataReader, bookkeeper: BookKeeperReader, topic: TopicName) -> None:
        self._store = store
        self._bookkeeper = bookkeeper
        self._path = f"{SCHEMAS}/{topic.namespace_name}/{topic.partitioned.local_name}"
        self._known: dict[bytes, AvroSchema] = {}

    async def of(self, version: bytes) -> AvroSchema:
        """The schema of `version`, the newest if that is empty. RecordError."""
        if version not in self._known:
            try:
                node = await self._store.get(self._path)
            except NodeNotFound:
                raise RecordError(f"there is no schema at {self._path} to decode policy events", self._path) from None
            where = schema_position(node.data, version, self._path)
            peek = await self._bookkeeper.peek(where.ledger_id)
            self._known[version] = decode_schema(
                await peek.read(where.entry_id), f"entry {where.entry_id} of ledger {where.ledger_id}"
            )
        return self._known[version]


def _compacted(payload: bytes, where: str) -> PulsarEntry:
    return decode_compacted_entry(payload, where)[1]


async def _entries(reader: LedgerReader, first: int, last: int) -> AsyncIterator[tuple[int, bytes]]:
    """Entries `first` to `last` with their entry ids, read in batches."""
    while first <= last:
        payloads = await reader.read(first, min(last, first + READ_ENTRIES - 1), READ_BYTES)
        for payload in payloads:
            yield first, payload
            first += 1
