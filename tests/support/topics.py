"""What tests of topics share: small settings, events, and checks of what a topic has left behind."""

import asyncio
from dataclasses import replace

import mledger
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.events import Event
from mledger.ledgers.orphans.pending_records import owned_ledgers, read_records
from mledger.metastore.errors import NodeNotFound, StoreUnavailable
from mledger.metastore.url import open_reader

CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    max_entries_per_ledger=10,
    minimum_rollover_time_ms=0,
    throttle_mark_delete=0,
    deletion_at_batch_index_level_enabled=True,
)
KEEP = replace(CONFIG, retention_time_ms=-1, retention_size_in_mb=-1)
"""Retention keeps everything that is consumed."""


def payloads(count: int, first: int = 0) -> list[bytes]:
    """Distinct payloads, by number."""
    return [b"entry-%06d" % number for number in range(first, first + count)]


def managed_ledger_of(topic: str) -> str:
    """The name of a topic's managed ledger."""
    return mledger.TopicName.parse(topic).managed_ledger_name


async def fill(managed_ledger: mledger.ManagedLedger, count: int, first: int = 0) -> list[mledger.Position]:
    """Append numbered entries in one batch, and return their positions in order."""
    ranges = await managed_ledger.append(payloads(count, first))
    return [position for where in ranges for position in where.positions()]


async def write_topic(url: str, topic: str, config: mledger.ManagedLedgerConfig = KEEP) -> None:
    """Create a topic of three ledgers with a cursor `one` that has holes, and abandon it."""
    async with mledger.open_cluster(url, config=config) as cluster:
        opened = await cluster.create_topic(topic)
        cursor = await opened.open_cursor("one", cursor_properties={"kept": "yes"})
        positions = await fill(opened, 25)
        await cursor.acknowledge([positions[3], positions[12]])
        await opened.abandon()


async def everything(managed_ledger: mledger.ManagedLedger) -> list[bytes]:
    """The payloads of all entries, read from the bookies."""
    found: list[bytes] = []
    position = mledger.Position(0, 0)
    while entries := await managed_ledger.read(position, 1000):
        found += [entry.payload for entry in entries]
        last = entries[-1].position
        position = mledger.Position(last.ledger_id, last.entry_id + 1)
    return found


async def recount(managed_ledger: mledger.ManagedLedger, cursor: mledger.Cursor) -> int:
    """The cursor's backlog, counted entry by entry."""
    return sum(
        not cursor.is_deleted(mledger.Position(ledger.ledger_id, entry))
        for ledger in managed_ledger.ledgers
        for entry in range(ledger.entries)
    )


def hold_write(monkeypatch, store, kind: type, path: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold back multis with an operation of `kind` at `path`; the events that one has begun, and that it may go on."""
    multi, begun, release = store.multi, asyncio.Event(), asyncio.Event()

    async def held(operations):
        if any(isinstance(each, kind) and each.path == path for each in operations):
            begun.set()
            await release.wait()
        return await multi(operations)

    monkeypatch.setattr(store, "multi", held)
    return begun, release


class FailsAt:
    """A hook for the steps of a topic: the next time that it reaches `step`, the store does not answer, if `armed`."""

    def __init__(self, step: str) -> None:
        self.step, self.armed = step, False

    def __call__(self, reached: str) -> None:
        if reached == self.step and self.armed:
            self.armed = False
            raise StoreUnavailable("made to fail by the test")


class Events:
    """An event sink that keeps all events and lets a test wait for one."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._waiters: list[tuple[type, asyncio.Future[Event]]] = []

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        for kind, waiter in self._waiters:
            if isinstance(event, kind) and not waiter.done():
                waiter.set_result(event)

    def of(self, kind: type) -> list[Event]:
        """The events of one kind, in order."""
        return [event for event in self.seen if isinstance(event, kind)]

    async def next(self, kind: type) -> Event:
        """The next event of that kind."""
        waiter: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiters.append((kind, waiter))
        return await waiter


async def ledgers_naming(url: str, managed_ledger: str) -> set[int]:
    """Every existing ledger whose metadata names the managed ledger, or its topic as that of delayed messages."""
    topic = str(mledger.TopicName.of_managed_ledger(managed_ledger))
    wanted = {("pulsar/managed-ledger", managed_ledger.encode()), ("pulsar/delayedIndexTopic", topic.encode())}
    found = set()
    async with await open_reader(url) as reader:
        bookkeeper = BookKeeperReader(reader)
        async for page in bookkeeper.list_ledgers():
            for ledger_id in page:
                try:
                    if wanted.intersection((await bookkeeper.metadata(ledger_id)).custom_metadata):
                        found.add(ledger_id)
                except NoSuchLedger:
                    continue
        await bookkeeper.close()
    return found


async def assert_nothing_orphaned(url: str, managed_ledger: str) -> None:
    """Assert that the managed ledger lists all its ledgers, that all listed ones exist, and that no record is left."""
    async with await open_reader(url) as reader:
        try:
            owned = await owned_ledgers(reader, managed_ledger) - {-1}
        except NodeNotFound:
            owned = set()
        records = [record for record in await read_records(reader) if record.managed_ledger == managed_ledger]
    assert await ledgers_naming(url, managed_ledger) == owned
    assert records == []
