"""Reads for the consumers of a subscription, behind a real connection."""

from mledger.cursors.cursor import Cursor
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.served_broker import served


def test_a_read_that_fails_unexpectedly_is_tried_again(broker_url, topic, monkeypatch):
    read_positions, failed = Cursor.read_positions, []

    async def fail_once(self, positions):
        if not failed:
            failed.append(positions)
            raise RuntimeError("made to fail by the test")
        return await read_positions(self, positions)

    async def main():
        async with served(broker_url, "dispatcherReadFailureBackoffInitialTimeInMs=1") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(1)
            monkeypatch.setattr(Cursor, "read_positions", fail_once)
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            (again,) = await client.messages(1)
            assert (again.payload, len(failed)) == (b"0", 1)

    run(main())
