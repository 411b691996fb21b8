"""A consumer that loses its connection, asks again, and waits for slow bookies misses nothing (D1, D3)."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.bookie.errors import BookieUnavailable
from mledger.broker.protocol.message_frames import MessageFrames
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.policies_in_force import plan_rates
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerRequest
from mledger.broker.topics.subscriptions.cursor_advance import CursorAdvances
from mledger.broker.topics.subscriptions.dispatchers import DispatchLimits
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.positions import next_valid
from mledger.cursors.reads import CursorReads
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.entries.position_reads import PositionsFound
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import entry_of

LEDGER = 3
ENTRY = entry_of(b"message")
SETTINGS = BrokerSettings(read_failure_pause_s=0, longest_read_failure_pause_s=0, failover_delay_s=0)


class SlowBookies:
    """Answers reads when it is told to; entries from `cached_from` on are in the cache."""

    cache = None

    def __init__(self):
        self.cached_from = 0
        self.asked = []

    def cached(self, ledger_id, first, last, _):
        return [PayloadRun(ledger_id, first, [ENTRY] * (last - first + 1))] if first >= self.cached_from else []

    async def read_runs(self, ledger_id, first, last, _):
        answer = asyncio.get_running_loop().create_future()
        self.asked.append(answer)
        await answer
        return [PayloadRun(ledger_id, first, [ENTRY] * (last - first + 1))]

    def answer(self, *, failing=False):
        for answer in self.asked:
            if not answer.done():
                if failing:
                    answer.set_exception(BookieUnavailable("no answer"))
                else:
                    answer.set_result(None)
        self.asked.clear()


class MemoryCursor:
    """A cursor's acknowledgements and reads, which nothing makes durable."""

    name, durable = "sub", True

    def __init__(self, host):
        self._host, self.acks = host, AckState(Position(LEDGER, -1))
        self.reads = CursorReads(self, host, Position(LEDGER, 0))
        self.read_cached = lambda entries, size: self.reads.read_cached(entries, size, None)
        self.is_deleted, self.batch_deleted = self.acks.is_deleted, self.acks.batch_words

    mark_delete = property(lambda self: self.acks.mark_delete)
    read_position = property(lambda self: self.reads.position)

    def check(self):
        """Nothing stops it."""

    def set_active(self, _):
        """The bookies' cache does not care."""

    def rewind(self):
        self.reads.move_to(next_valid(self._host.ledger_list, self.mark_delete))

    async def read_runs(self, entries, size):
        return await self.reads.read_runs(entries, size, None)

    async def read_positions(self, positions):
        runs = []
        for ledger_id, entry in positions:
            if not self.is_deleted(Position(ledger_id, entry)):
                runs += await self._host.reader.read_runs(ledger_id, entry, entry, None)
        return PositionsFound(tuple(runs), ())

    def acknowledge(self, positions):
        self.acks.acknowledge(positions, self._host.ledger_list)
        self.reads.pass_deleted()


class CountingClient:
    """The consumer's client, which counts permits and epochs as Java's does."""

    address = client_version = ""
    writable = True

    def __init__(self, epoch):
        self.epoch, self.received = epoch, []

    def deliver(self, consumer, outgoing):
        assert consumer.dispatch.epoch == self.epoch
        self.received += outgoing.entry_ids

    def tell_active(self, *_):
        """It is the only one."""

    def disconnect_consumer(self, *_):
        raise AssertionError("nobody closes it")


class ModelledSubscription:
    """One subscription, its topic and its client."""

    def __init__(self, kind):
        self.kind, self.epoch, self.published = kind, 0, 0
        self.list = LedgerList([LedgerInfo(LEDGER)], current=LEDGER)
        self.bookies = SlowBookies()
        host = SimpleNamespace(ledger_list=self.list, reader=self.bookies)
        self.cursor = MemoryCursor(host)
        topic = SimpleNamespace(
            name=TopicName.parse("persistent://public/default/t"),
            settings=SETTINGS,
            limits=DispatchLimits.of_broker(SETTINGS).of_topic(plan_rates(SETTINGS, NO_SERVICE_POLICIES)),
            managed_ledger=SimpleNamespace(
                name="t", terminated=None, last_confirmed=Position(LEDGER, -1), ledger_list=self.list
            ),
            check_serves=lambda: None,
            cursor_advances=CursorAdvances(),
        )
        self.topic, self.subscription, self.consumer = topic, BrokerSubscription(topic, self.cursor), None
        topic.subscriptions = [self.subscription]

    def publish(self, count):
        self.published += count
        self.list.set_live(self.published, self.published)
        self.topic.managed_ledger.last_confirmed = Position(LEDGER, self.published - 1)
        self.subscription.run()

    def connect(self):
        if self.consumer is None:
            client = CountingClient(self.epoch)
            request = ConsumerRequest(1, "c", self.kind, epoch=self.epoch)
            consumer = Consumer(client, self.subscription, request, MessageFrames(1))
            self.subscription.add(consumer)
            self.subscription.begin()
            self.consumer = consumer

    def cut(self):
        if self.consumer is not None:
            self.subscription.remove(self.consumer)
            self.consumer = None

    def flow(self, permits):
        if self.consumer is not None:
            self.subscription.flow(self.consumer, permits)

    def redeliver(self):
        if self.consumer is not None:
            client, self.epoch = self.consumer.connection, self.epoch + 1
            client.epoch, client.received = self.epoch, []
            self.subscription.redeliver(self.consumer, None, self.epoch)

    def acknowledge(self, which):
        if self.consumer is not None and (received := self.consumer.connection.received):
            position = Position(LEDGER, received[which % len(received)])
            self.subscription.acknowledge(
                self.consumer, SimpleNamespace(positions=[position], partial=[], request_ids=[])
            )

    def evict(self):
        self.bookies.cached_from = self.published

    async def settle(self):
        """All reads are answered, and there are permits for everything."""
        self.connect()
        self.flow(10_000)
        for _ in range(50):
            self.bookies.answer()
            for _ in range(10):
                await asyncio.sleep(0)

    def check(self):
        received = self.consumer.connection.received
        live = [entry for entry in range(self.published) if not self.cursor.is_deleted(Position(LEDGER, entry))]
        assert set(live) <= set(received)
        assert len(received) == len(set(received))
        if self.kind == pb.CommandSubscribe.Exclusive:
            assert received == sorted(received)


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 40)),
    st.tuples(st.sampled_from(("connect", "cut", "redeliver", "evict", "answer", "fail"))),
    st.tuples(st.just("flow"), st.integers(1, 30)),
    st.tuples(st.just("acknowledge"), st.integers(0, 100)),
    st.tuples(st.just("wait"), st.integers(1, 6)),
)


@pytest.mark.parametrize(
    "kind", [pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Failover, pb.CommandSubscribe.Shared]
)
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_what_is_not_acknowledged_comes_whatever_happens_to_the_connection(kind, steps):
    async def main():
        machine = ModelledSubscription(kind)
        for name, *arguments in steps:
            if name == "wait":
                for _ in range(arguments[0]):
                    await asyncio.sleep(0)
            elif name in ("answer", "fail"):
                machine.bookies.answer(failing=name == "fail")
            else:
                getattr(machine, name)(*arguments)
        await machine.settle()
        machine.check()

    run(main())
