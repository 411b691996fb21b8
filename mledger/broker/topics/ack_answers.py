"""Answers acknowledgements once they are durable: one write of the cursor's state for all that wait."""

import asyncio

from mledger.broker.topics.consumer import Consumer
from mledger.cursors.cursor import Cursor
from mledger.metastore.errors import MledgerError


class AckAnswers:
    """The acknowledgements of one cursor that clients wait for."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._waiting: list[tuple[Consumer, int]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, consumer: Consumer, request_ids: list[int]) -> None:
        """Answer these requests once the present state of the cursor is durable."""
        self._waiting += [(consumer, request_id) for request_id in request_ids]
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer())

    def stop(self) -> None:
        """Answer nothing more: the clients acknowledge again after they have subscribed again."""
        if self._task is not None:
            self._task.cancel()

    async def _answer(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._cursor.flush()
                except MledgerError as error:
                    for consumer, request_id in waiting:
                        consumer.connection.refuse_ack(consumer, request_id, error)
                else:
                    for consumer, request_id in waiting:
                        consumer.connection.answer_ack(consumer, request_id)
        finally:
            self._task = None
