"""Combines reads of ledger metadata that are requested at the same time into one request to the store.

A broker opens a thousand cursor ledgers at once: one by one, each would cost the store's client as much as many
together (architecture, Concurrency). If the store refuses the request, each read is sent alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import MetadataError, StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerMetadata

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Found = tuple[LedgerMetadata, int] | None


class RequestTurn(Generic[Asked, Answer]):
    """Collects the requests of one turn of the event loop, and has them answered together."""

    def __init__(self, answer: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer | Exception]]]) -> None:
        self._answer = answer
        self._asked: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, what: Asked) -> Answer:
        """The answer to `what`; raises its error."""
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
        self._turn: RequestTurn[int, Found] = RequestTurn(self._read)

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
