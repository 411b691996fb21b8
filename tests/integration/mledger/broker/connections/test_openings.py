"""Requests to open something whose close stands right behind them, in one write, as after a pause of reading."""

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def test_a_consumer_that_is_closed_before_its_turn_is_not_opened(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": topic, "subscription": "sub", "subType": "Exclusive", "consumer_id": 1}
            client.send(pb.BaseCommand.SUBSCRIBE, "subscribe", request_id=101, **wanted)
            client.send(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=1, request_id=102)
            assert (await client.expect("success")).request_id == 102
            refused = await client.expect("error")
            assert (refused.request_id, refused.error) == (101, pb.ServiceNotReady)
            await client.subscribe(2, topic=topic)  # nobody is in its place

    run(main())


def test_a_producer_that_is_closed_before_its_turn_is_not_opened(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": topic, "producer_name": "p", "producer_id": 1}
            client.send(pb.BaseCommand.PRODUCER, "producer", request_id=101, **wanted)
            client.send(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=1, request_id=102)
            assert (await client.expect("success")).request_id == 102
            refused = await client.expect("error")
            assert (refused.request_id, refused.error) == (101, pb.ServiceNotReady)
            await client.producer(2, topic=topic, producer_name="p")

    run(main())


def test_a_watcher_that_is_closed_before_its_turn_is_told_nothing(broker_url, own_topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            namespace = own_topic.removeprefix("persistent://").rpartition("/")[0]
            wanted = {"namespace": namespace, "topics_pattern": ".*", "watcher_id": 5}
            client.send(pb.BaseCommand.WATCH_TOPIC_LIST, "watchTopicList", request_id=101, **wanted)
            client.send(pb.BaseCommand.WATCH_TOPIC_LIST_CLOSE, "watchTopicListClose", request_id=102, watcher_id=5)
            assert (await client.expect("success")).request_id == 102
            refused = await client.expect("error")
            assert (refused.request_id, refused.error) == (101, pb.ServiceNotReady)
            (connection,) = broker.broker.connections
            assert connection.watchers == {}

    run(main())


def test_what_is_opened_under_one_number_is_refused_until_the_first_is_open(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": topic, "subscription": "sub", "subType": "Exclusive", "consumer_id": 1}
            for request in (101, 102):
                client.send(pb.BaseCommand.SUBSCRIBE, "subscribe", request_id=request, **wanted)
            refused = await client.expect("error")
            assert (refused.request_id, refused.error) == (102, pb.ServiceNotReady)
            assert (await client.expect("success")).request_id == 101

    run(main())


def test_the_number_of_what_was_closed_before_its_turn_can_be_used_at_once(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": topic, "subscription": "sub", "subType": "Exclusive", "consumer_id": 1}
            client.send(pb.BaseCommand.SUBSCRIBE, "subscribe", request_id=101, **wanted)
            client.send(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=1, request_id=102)
            client.send(pb.BaseCommand.SUBSCRIBE, "subscribe", request_id=103, **wanted)
            assert (await client.expect("success")).request_id == 102
            assert (await client.expect("error")).request_id == 101
            assert (await client.expect("success")).request_id == 103
            (connection,) = broker.broker.connections
            assert set(connection.consumers) == {1}

    run(main())
