"""Answers acknowledgements once they are durable: one write of the cursor's state for all that wait.

None stays without an answer: a connection outlives its consumers, and clients wait for what they asked on it.
"""

import asyncio
from collections.abc import Iterable

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerConnection
from mledger.cursors.cursor import Cursor
from mledger.metastore.errors import MledgerError
from mledger.pb import PulsarApi_pb2 as pb


class AckAnswers:
    """The acknowledgements of one cursor that clients wait for."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._waiting: list[tuple[Consumer, int]] = []
        self._flushing: list[tuple[Consumer, int]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, consumer: Consumer, request_ids: list[int]) -> None:
        """Answer these requests once the present state of the cursor is durable."""
        self._waiting += [(consumer, request_id) for request_id in request_ids]
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer())

    def stop(self) -> None:
        """Refuse what waits: the clients acknowledge again after they have subscribed again."""
        if self._task is not None:
            self._task.cancel()
        left, self._flushing, self._waiting = self._flushing + self._waiting, [], []
        for consumer, request_id in left:
            refuse_closed(consumer.connection, consumer.id, [request_id])

    async def _answer(self) -> None:
        try:
            while self._waiting:
                self._flushing, self._waiting = self._waiting, []
                try:
                    await self._cursor.flush()
                except MledgerError as error:
                    for consumer, request_id in self._flushing:
                        consumer.connection.refuse_ack(consumer.id, request_id, error)
                else:
                    for consumer, request_id in self._flushing:
                        consumer.connection.answer_ack(consumer.id, request_id)
                self._flushing = []
        finally:
            self._task = None


def refuse_closed(connection: ConsumerConnection, consumer_id: int, request_ids: Iterable[int]) -> None:
    """Refuse acknowledgements whose consumer is closed, which its client may not know yet."""
    why = f"consumer {consumer_id} is closed: acknowledge what comes again"
    refuse_acks(connection, consumer_id, request_ids, BrokerRefusal(pb.ServiceNotReady, why))


def refuse_acks(
    connection: ConsumerConnection, consumer_id: int, request_ids: Iterable[int], refusal: BrokerRefusal
) -> None:
    """Answer each of these acknowledgements with a refusal."""
    for request_id in request_ids:
        connection.refuse_ack(consumer_id, request_id, refusal)
