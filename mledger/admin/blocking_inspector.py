"""The inspector for scripts and notebooks: its calls block, and work where an event loop runs already."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector, PartitionedInspection, SeenEntry, TopicInspection
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.processes.blocking_loop import BlockingLoop
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_renewed_reader


class BlockingInspector:
    """Inspects topics as `Inspector` does, in calls that block; made by `open_inspector`, for one thread at a time."""

    def __init__(
        self, loop: BlockingLoop, store: MetadataReader, bookkeeper: BookKeeperReader, password: bytes | None
    ) -> None:
        """Use `open_inspector`."""
        self._loop = loop
        self._store = store
        self._bookkeeper = bookkeeper
        self._inspector = Inspector(store, bookkeeper, password)

    def topics(self, prefix: str = "") -> list[TopicName]:
        """All topics, sorted by managed ledger; with `prefix` only those of a tenant or tenant/namespace."""
        return self._loop.run(self._inspector.topics(prefix))

    def topic(self, name: str) -> TopicInspection:
        """The topic as it is now. TopicNotFound, RecordError, and the errors of peeking at its last ledger."""
        return self._loop.run(self._inspector.topic(name))

    def partitioned(self, name: str) -> PartitionedInspection:
        """The partitioned topic with each partition as it is; TopicNotFound if it is not partitioned."""
        return self._loop.run(self._inspector.partitioned(name))

    def cursors(self, name: str, cursor: str | None = None) -> list[CursorInspection]:
        """What opening the topic would do to its cursors, or to one of them. TopicNotFound, CursorNotFound."""
        return self._loop.run(self._inspector.cursors(name, cursor))

    def read(self, name: str, first: Position | None = None, last: Position | None = None) -> Iterator[SeenEntry]:
        """Entries from `first` to `last`; of a ledger that is not closed, those that can be seen.

        It leaves out ledgers that are offloaded and no longer on the bookies. Raises TopicNotFound, and, after the
        entries that can be seen, RecoveryUndecided if there may be more that are acknowledged.
        """
        batches = self._inspector.read(name, first, last)

        async def more() -> list[SeenEntry] | None:
            return await anext(batches, None)

        while (found := self._loop.run(more())) is not None:
            yield from found

    def close(self) -> None:
        """Close the connections."""

        async def close() -> None:
            try:
                await self._bookkeeper.close()
            finally:
                await self._store.close()

        try:
            self._loop.run(close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_inspector(url: str, *, password: bytes | None = None, client: ClientConfig | None = None) -> BlockingInspector:
    """Inspect the cluster whose metadata is at `url`, read-only: it writes no node and fences no ledger (M9, Q3).

    `password` is that of ledgers (managedLedgerPassword), None: what each one's metadata has. `client` configures the
    bookie client. Use it as a context manager, or close it.

    Raises:
        InvalidMetadataUrl: `url` is not the URL of a metadata store.
        StoreUnavailable: the store does not answer.
        NodeNotFound: the store has no such chroot.
    """

    async def opened() -> tuple[MetadataReader, BookKeeperReader]:
        store = await open_renewed_reader(url)
        return store, BookKeeperReader(store, client)

    loop = BlockingLoop()
    try:
        store, bookkeeper = loop.run(opened())
    except BaseException:
        loop.close()
        raise
    return BlockingInspector(loop, store, bookkeeper, password)
