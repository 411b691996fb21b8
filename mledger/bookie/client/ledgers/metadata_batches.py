"""Combines reads and updates of ledger metadata that are requested at the same time into one request to the store.

A broker opens a thousand cursor ledgers at once: one by one, each would cost the store's client as much as many
together (architecture, Concurrency). Updates of several ledgers become one multi, as many as surely fit a request. If
the store refuses one of them it carries out none, and each is then sent alone. Reads work the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mledger.metastore.batched_store import plan_multis
from mledger.metastore.cluster.ledgers import LedgerStore, LedgerStoreReader, multi_own
from mledger.metastore.errors import MetadataError, StoreUnavailable
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.store import MetadataStore, Put

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Found = tuple[LedgerMetadata, int] | None
Update = tuple[int, LedgerMetadata, int]  # ledger id, metadata, version expected


class _Turn(Generic[Asked, Answer]):
    """Collects the requests of one turn of the event loop, and has them answered together."""

    def __init__(self, answer: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer | Exception]]]) -> None:
        self._answer = answer
        self._asked: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, what: Asked) -> Answer:
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._begin)
        future: asyncio.Future[Answer] = loop.create_future()
        self._asked.append((what, future))
        return await future

    def _begin(self) -> None:
        asked, self._asked = self._asked, []
        task = asyncio.create_task(self._carry_out(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, asked: Sequence[tuple[Asked, asyncio.Future[Answer]]]) -> None:
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._answer([what for what, _ in asked])
        except asyncio.CancelledError:
            for _, future in asked:
                future.cancel()
            raise
        except Exception as error:
            answers = [error] * len(asked)
        for (_, future), answer in zip(asked, answers, strict=True):
            if future.done():
                continue  # the caller has given up
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class MetadataReads:
    """Reads ledgers' metadata."""

    def __init__(self, records: LedgerStoreReader) -> None:
        self._records = records
        self._turn: _Turn[int, Found] = _Turn(self._read)

    async def read(self, ledger_id: int) -> Found:
        """The ledger's metadata and version, None if it does not exist; RecordError, StoreUnavailable."""
        return await self._turn.ask(ledger_id)

    async def _read(self, ids: Sequence[int]) -> Sequence[Found | Exception]:
        try:
            return await self._records.read_many(ids)
        except StoreUnavailable:
            raise
        except MetadataError as error:
            if len(ids) == 1:
                return [error]
        # One is damaged or access is denied: the others must not fail with it.
        return [(await self._read([ledger_id]))[0] for ledger_id in ids]


class MetadataUpdates:
    """Replaces ledgers' metadata, each by compare-and-set (M7)."""

    def __init__(self, store: MetadataStore, records: LedgerStore) -> None:
        self._store, self._records = store, records
        self._turn: _Turn[Update, int] = _Turn(self._put)

    async def put(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """As `LedgerStore.put`: the new version; BadVersion, NodeNotFound, StoreUnavailable."""
        return await self._turn.ask((ledger_id, metadata, version))

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """As `LedgerStore.read`: the metadata in the store; NodeNotFound."""
        return await self._records.read(ledger_id)

    async def _put(self, updates: Sequence[Update]) -> Sequence[int | Exception]:
        puts = [
            Put(ledger_path(ledger_id, self._records.root), encode_ledger_metadata(metadata), version)
            for ledger_id, metadata, version in updates
        ]
        parts = [slice(part.start, part.stop) for part in plan_multis([[put] for put in puts])]
        answers = await asyncio.gather(*(self._put_together(updates[part], puts[part]) for part in parts))
        return [answer for part in answers for answer in part]

    async def _put_together(self, updates: Sequence[Update], puts: Sequence[Put]) -> Sequence[int | Exception]:
        if len({ledger_id for ledger_id, _, _ in updates}) < len(updates) or len(updates) == 1:
            return [await self._put_alone(update) for update in updates]
        try:
            results = await multi_own(self._store, puts)
        except StoreUnavailable as error:
            return [error] * len(updates)
        except MetadataError:  # one was refused, so none was carried out
            return await asyncio.gather(*(self._put_alone(update) for update in updates))
        except Exception as error:
            return [error] * len(updates)
        return [result for result in results if isinstance(result, int)]

    async def _put_alone(self, update: Update) -> int | Exception:
        try:
            return await self._records.put(*update)
        except Exception as error:
            return error
