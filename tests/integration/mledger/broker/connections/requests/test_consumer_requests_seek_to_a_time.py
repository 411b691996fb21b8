"""Seeks of a consumer to a time."""

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import NO_MESSAGE, served


def test_a_seek_to_a_time_passes_over_what_is_no_message(broker_url, topic):
    """Whoever may publish can send one, and it has no publish time."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.store(NO_MESSAGE)
            await client.publish_all(b"0", b"1", b"2")
            last = await client.store(NO_MESSAGE)
            await client.subscribe(topic=topic)
            await client.request(pb.BaseCommand.SEEK, "seek", "close_consumer", consumer_id=0, message_publish_time=2)
            await client.expect("success")
            (managed_ledger,) = broker.cluster.opened.values()
            assert managed_ledger.open_cursors["sub"].read_position == last

    run(main())


def test_a_seek_to_before_1970_goes_to_the_first_message(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, permits=2)
            await client.ack_durably(*[each.position for each in await client.messages(2)])
            before = {"consumer_id": 0, "message_publish_time": (1 << 64) - 1}  # -1, as Java's client writes it
            await client.request(pb.BaseCommand.SEEK, "seek", "close_consumer", **before)
            await client.expect("success")
            await client.subscribe(topic=topic, permits=2)
            assert [each.position for each in await client.messages(2)] == sent

    run(main())
