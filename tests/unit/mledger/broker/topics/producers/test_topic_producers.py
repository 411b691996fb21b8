"""Producers that are given the topic alone while something else happens to it."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.producers.access import AccessMode
from mledger.broker.topics.producers.producer import Producer, ProducerRequest
from mledger.broker.topics.producers.topic_producers import TopicProducers
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run


def producer(number, mode):
    connection = SimpleNamespace(host="h", disconnect_producer=lambda *_: None)
    return Producer(connection, None, ProducerRequest(number, f"p{number}", mode=mode))


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda producers: producers.disconnect(), pb.ServiceNotReady),
        (
            lambda producers: producers.admit(producer(2, AccessMode.EXCLUSIVE_WITH_FENCING), lambda: None),
            pb.ProducerFenced,
        ),
    ],
    ids=["closed here", "fenced out"],
)
def test_only_a_producer_that_was_fenced_out_is_told_never_to_come_back(happens, code):
    async def main():
        stored = asyncio.Event()

        async def set_epoch(_):
            await stored.wait()

        producers = TopicProducers("topic", 0, set_epoch)
        admission = asyncio.ensure_future(producers.admit(producer(1, AccessMode.EXCLUSIVE), lambda: None))
        await asyncio.sleep(0)
        more = happens(producers)
        if more is not None:
            more = asyncio.ensure_future(more)
            await asyncio.sleep(0)
        stored.set()
        with pytest.raises(BrokerRefusal) as refused:
            await admission
        assert refused.value.code == code
        if more is not None:
            await more

    run(main())


def test_a_producer_whose_topic_is_closed_in_its_turn_is_told_so():
    """Else its client takes it for open, and what that sends is dropped."""

    async def main():
        async def set_epoch(_):
            pass

        producers, first, second = (
            TopicProducers("topic", 0, set_epoch),
            *(producer(number, AccessMode.WAIT_FOR_EXCLUSIVE) for number in (1, 2)),
        )
        await producers.admit(first, lambda: None)
        admission = asyncio.ensure_future(producers.admit(second, lambda: None))
        await asyncio.sleep(0)
        given = producers._give_turn

        async def give_and_close(*turn):
            await given(*turn)
            producers.disconnect()  # before who waits goes on

        producers._give_turn = give_and_close
        producers.remove(first)
        with pytest.raises(BrokerRefusal) as refused:
            await admission
        assert refused.value.code == pb.ServiceNotReady

    run(main())


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda producers: producers.configure(BrokerSettings(), encrypted=True), pb.ServiceNotReady),
        (
            lambda producers: asyncio.ensure_future(
                producers.admit(producer(3, AccessMode.EXCLUSIVE_WITH_FENCING), lambda: None)
            ),
            pb.ProducerFenced,
        ),
    ],
    ids=["closed", "fenced out"],
)
def test_a_producer_is_told_why_it_is_closed_when_another_one_has_the_topic_by_then(happens, code):
    """As while its sequence ids are found out. Java's client gives up a producer that is fenced out."""

    async def main():
        async def set_epoch(_):
            pass

        producers = TopicProducers("topic", 0, set_epoch)
        first, second = producer(1, AccessMode.EXCLUSIVE), producer(2, AccessMode.WAIT_FOR_EXCLUSIVE)
        await producers.admit(first, lambda: None)
        waiting = asyncio.ensure_future(producers.admit(second, lambda: None))
        await asyncio.sleep(0)
        happens(producers)
        await asyncio.wait([waiting])
        with pytest.raises(BrokerRefusal) as refused:
            producers.check_open(first)
        assert refused.value.code == code
        assert (waiting.exception() is None) is (code == pb.ServiceNotReady)

    run(main())


def test_one_address_has_no_more_producers_than_the_settings_allow():
    async def main():
        producers = TopicProducers("topic", 0, None)
        producers.configure(BrokerSettings(max_producers_per_topic_and_host=1), encrypted=False)
        elsewhere = producer(2, AccessMode.SHARED)
        elsewhere.connection.host = "other"
        for each in (producer(1, AccessMode.SHARED), elsewhere):
            await producers.admit(each, lambda: None)
        with pytest.raises(BrokerRefusal, match="1 producers from h, the most that maxSameAddress") as refused:
            await producers.admit(producer(3, AccessMode.SHARED), lambda: None)
        assert (refused.value.code, len(producers)) == (pb.ProducerBusy, 2)

    run(main())
