"""Acknowledgements that clients wait for: each is answered once."""

import asyncio
from types import SimpleNamespace

from mledger.broker.topics.subscriptions.ack_answers import AckAnswers
from tests.support.aio import run


class SlowCursor:
    """A cursor whose writes take until they are allowed."""

    def __init__(self):
        self.begun, self.allowed = asyncio.Event(), asyncio.Event()

    async def flush(self):
        """Write its state."""
        self.begun.set()
        await self.allowed.wait()


class AskingConsumer:
    """A consumer that keeps what it is told."""

    def __init__(self):
        self.id, self.told = 3, []
        self.connection = SimpleNamespace(
            answer_ack=lambda _, request: self.told.append((request, "durable")),
            refuse_ack=lambda _, request, error: self.told.append((request, str(error))),
        )


REFUSED = "consumer 3 is closed: acknowledge what comes again"


def test_they_are_answered_when_they_are_durable():
    async def main():
        cursor, consumer = SlowCursor(), AskingConsumer()
        answers = AckAnswers(cursor)
        answers.add(consumer, [1, 2])
        await cursor.begun.wait()
        assert not consumer.told
        cursor.allowed.set()
        while len(consumer.told) < 2:
            await asyncio.sleep(0)
        assert consumer.told == [(1, "durable"), (2, "durable")]

    run(main())


def test_those_that_wait_when_the_subscription_ends_are_refused():
    async def main():
        cursor, consumer = SlowCursor(), AskingConsumer()
        answers = AckAnswers(cursor)
        answers.add(consumer, [1])
        await cursor.begun.wait()
        answers.add(consumer, [2])
        answers.stop()
        cursor.allowed.set()
        await asyncio.sleep(0)
        assert consumer.told == [(1, REFUSED), (2, REFUSED)]

    run(main())
