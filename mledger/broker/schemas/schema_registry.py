"""The schemas of topics, in Pulsar's own storage: read, compared, and added to.

A version is an entry of a ledger of its own; the topic's locator names it. A new version takes effect when the locator
does, by compare-and-set: of two brokers that add one at once, the second one looks again and compares with the first's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from mledger.admin.policies.bookie_affinity import read_affinity
from mledger.bookie.client.client import BookKeeper
from mledger.broker.schemas.compatibility import (
    CompatibilityStrategy,
    IncompatibleSchema,
    SchemaMissing,
    check_compatible,
    check_consumer,
    check_valid,
    find_version,
)
from mledger.broker.schemas.stored_schema import (
    decode_locator,
    decode_stored,
    encode_schema,
    locator_path,
    not_deleted,
    plan_locator,
)
from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.orphans.foreign_ledgers import plan_foreign_to_schema
from mledger.metastore.errors import BadVersion, MetadataError, MledgerError, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.bookie_affinity import placement_metadata
from mledger.metastore.records.paths import PERSISTENT
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import Delete, MetadataStore
from mledger.metastore.write_verification import create_own, delete_own, put_own

log = get_logger(__name__)

T = TypeVar("T")

LARGE = 32 << 10
"""Of schemas, in bytes, from which on work on them is done on a thread."""
_PASSWORD = b""
_REMEMBERED = 10_000
_TRIES = 20


def bytes_of(schema: TopicSchema, existing: Iterable[TopicSchema]) -> int:
    """How large the schemas are together."""
    return len(schema.data) + sum(len(each.data) for each in existing)


async def apart(size: int, work: Callable[[], T]) -> T:
    """What `work` on schemas of so many bytes returns; that on large ones takes seconds, and clients wait meanwhile."""
    return work() if size < LARGE else await asyncio.to_thread(work)


class SchemaRegistry:
    """Schemas by id (`schema_id_of`). What was read of ledgers never changes, and is remembered."""

    def __init__(
        self, store: MetadataStore, bookkeeper: BookKeeper, config: ManagedLedgerConfig, now_ms: Callable[[], int]
    ) -> None:
        """`config` has the quorums and the digest of new ledgers, `now_ms` gives the time since 1970."""
        self._store = store
        self._bookkeeper = bookkeeper
        self._config = config
        self._now_ms = now_ms
        self._read: dict[Position, SchemaVersion] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def versions(self, schema_id: str) -> list[SchemaVersion]:
        """The versions in their order, without those before a deletion. RecordError, StoreUnavailable, BookieError."""
        return (await self._versions(schema_id))[0]

    async def latest(self, schema_id: str) -> SchemaVersion | None:
        """The version that counts, None if the topic has no schema."""
        found = await self._locator(schema_id)
        if found is None:
            return None
        newest = found[0].info
        version = await self._stored(newest.version, Position(newest.position.ledgerId, newest.position.entryId))
        return None if version.schema.deleted else version

    async def locator(self, schema_id: str) -> SchemaLocator | None:
        """Where the versions are, deleted ones too; None if the topic has had no schema. RecordError."""
        found = await self._locator(schema_id)
        return None if found is None else found[0]

    async def version(self, schema_id: str, number: int) -> SchemaVersion | None:
        """A version by its number; None if there is none, or if it was deleted."""
        return next((each for each in await self.versions(schema_id) if each.number == number), None)

    async def put(
        self, schema_id: str, schema: TopicSchema, strategy: CompatibilityStrategy, *, add: bool = True
    ) -> SchemaVersion:
        """The version that is `schema`, added if there is none and it is compatible.

        Raises:
            IncompatibleSchema: it is not compatible, is no schema of its type, or is not there and `add` is False.
            MledgerError: the storage fails.
        """
        await apart(len(schema.data), partial(check_valid, schema))
        async with self._lock(schema_id):
            for _ in range(_TRIES):
                versions, found = await self._versions(schema_id)
                existing = [each.schema for each in versions]
                size = bytes_of(schema, existing)
                same = await apart(size, partial(find_version, versions, schema))
                if same is not None:
                    return same
                if not add:
                    raise IncompatibleSchema("the topic does not have the schema, and schemas are not added by clients")
                if existing:
                    await apart(size, partial(check_compatible, existing, schema, strategy))
                added = await self._add(schema_id, schema, found)
                if added is not None:
                    return added
        raise MetadataError(f"the schema of {schema_id} changes all the time: try again", locator_path(schema_id))

    async def check_consumer(self, schema_id: str, schema: TopicSchema, strategy: CompatibilityStrategy) -> None:
        """Raise IncompatibleSchema unless a consumer with `schema` can read what the topic has."""
        existing = [each.schema for each in await self.versions(schema_id)]
        await apart(bytes_of(schema, existing), partial(check_consumer, existing, schema, strategy))

    async def delete(self, schema_id: str, user: str = "") -> int:
        """End the versions so far by one more, and return its number; clients find none of them any longer.

        Raises SchemaMissing if there are none.
        """
        async with self._lock(schema_id):
            for _ in range(_TRIES):
                versions, found = await self._versions(schema_id)
                if not versions:
                    raise SchemaMissing(f"{schema_id} has no schema")
                end = TopicSchema(SchemaType.NONE, b"", deleted=True)
                added = await self._add(schema_id, end, found, user)
                if added is not None:
                    return added.number
        raise MetadataError(f"the schema of {schema_id} changes all the time: try again", locator_path(schema_id))

    async def remove(self, schema_id: str) -> None:
        """Remove all versions, whose topic is deleted: the locator, then the ledgers."""
        path = locator_path(schema_id)
        async with self._lock(schema_id):
            for _ in range(_TRIES):
                found = await self._locator(schema_id)
                if found is None:
                    return
                with contextlib.suppress(BadVersion, NodeNotFound):
                    await delete_own(self._store, [Delete(path, found[1])])
                    break
            else:
                raise MetadataError(f"the schema of {schema_id} changes all the time: try again", path)
        for ledger_id in {each.position.ledgerId for each in found[0].index}:
            with contextlib.suppress(MledgerError):  # an orphan at worst, which repair finds
                await self._delete(schema_id, ledger_id)

    async def _delete(self, schema_id: str, ledger_id: int) -> None:
        """Delete a ledger that the locator named, unless that was damaged: others' say so themselves (R10)."""
        of = ""
        with contextlib.suppress(RecordError):
            of = plan_foreign_to_schema(ledger_id, await self._bookkeeper.metadata(ledger_id), schema_id)
        if of:
            log.warning("foreign_ledger_kept", schema=schema_id, ledger=ledger_id, of=of)
        else:
            await self._bookkeeper.delete_ledger(ledger_id)

    @asynccontextmanager
    async def _lock(self, schema_id: str) -> AsyncIterator[None]:
        """One change of a schema at a time in this process."""
        lock, users = self._locks.get(schema_id, (asyncio.Lock(), 0))
        self._locks[schema_id] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(schema_id)
            if users > 1:
                self._locks[schema_id] = lock, users - 1

    async def _locator(self, schema_id: str) -> tuple[SchemaLocator, int] | None:
        path = locator_path(schema_id)
        try:
            node = await self._store.get(path)
        except NodeNotFound:
            return None
        return decode_locator(node.data, path), node.version

    async def _versions(self, schema_id: str) -> tuple[list[SchemaVersion], tuple[SchemaLocator, int] | None]:
        found = await self._locator(schema_id)
        if found is None:
            return [], None
        reads = [
            self._stored(each.version, Position(each.position.ledgerId, each.position.entryId))
            for each in found[0].index
        ]
        return not_deleted(list(await asyncio.gather(*reads))), found

    async def _stored(self, number: int, position: Position) -> SchemaVersion:
        version = self._read.get(position)
        if version is None:
            where = f"entry {position.entry_id} of ledger {position.ledger_id}"
            peek = await self._bookkeeper.peek(position.ledger_id, _PASSWORD)
            version = decode_stored(number, await peek.read(position.entry_id), where)
            self._remember(position, version)
        return version

    def _remember(self, position: Position, version: SchemaVersion) -> None:
        if len(self._read) >= _REMEMBERED:
            self._read.clear()
        self._read[position] = version

    async def _add(
        self, schema_id: str, schema: TopicSchema, found: tuple[SchemaLocator, int] | None, user: str = ""
    ) -> SchemaVersion | None:
        """Store a version; None if the locator changed meanwhile."""
        old = None if found is None else found[0]
        stored_ms = self._now_ms()
        position = await self._write(schema_id, encode_schema(schema_id, schema, stored_ms, user, old))
        locator = plan_locator(old, position, b"" if schema.deleted else schema.hash)
        path, data = locator_path(schema_id), locator.SerializeToString()
        try:
            if found is None:
                await create_own(self._store, path, data)
            else:
                await put_own(self._store, path, data, found[1])
        except (BadVersion, NodeExists, NodeNotFound):
            # Perhaps our own write arrived and its answer did not: then the locator names the ledger.
            now = await self._locator(schema_id)
            if now is None or all(each.position.ledgerId != position.ledger_id for each in now[0].index):
                with contextlib.suppress(MledgerError):  # an orphan at worst, which repair finds
                    await self._bookkeeper.delete_ledger(position.ledger_id)
                return None
        version = SchemaVersion(locator.info.version, schema, stored_ms)
        self._remember(position, version)
        return version

    async def _write(self, schema_id: str, data: bytes) -> Position:
        """Write an entry to a new ledger and close it."""
        namespace, _, name = schema_id.rpartition("/")
        affinity = await read_affinity(
            self._store, f"{namespace}/{PERSISTENT}/{name}", strict=self._config.strict_bookie_affinity
        )
        writer = await self._bookkeeper.create_ledger(
            self._config.ensemble_size,
            self._config.write_quorum_size,
            self._config.ack_quorum_size,
            digest_type=self._config.digest_type,
            password=_PASSWORD,
            custom_metadata=(
                ("application", b"pulsar"),
                ("component", b"schema"),
                ("pulsar/schemaId", schema_id.encode()),
                *(() if affinity is None else (placement_metadata(affinity),)),
            ),
        )
        entry = await writer.append([data])
        await writer.close()
        return Position(writer.ledger_id, entry)
