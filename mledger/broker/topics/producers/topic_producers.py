"""The producers of one topic: who is admitted, who waits, who is fenced out."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, KeysView
from weakref import WeakSet

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.producers.access import AccessMode, AccessPlan, Admission, plan_access
from mledger.broker.topics.producers.producer import Producer
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb

SetEpoch = Callable[[int], Awaitable[None]]
OUTLASTING = (AccessMode.WAIT_FOR_EXCLUSIVE, AccessMode.EXCLUSIVE_WITH_FENCING)
"""The modes of producers that get the topic when those that have it are gone."""


class TopicProducers:
    """Producers by name. `set_epoch` makes the topic's epoch durable; `topic` names it in errors."""

    def __init__(self, topic: str, epoch: int, set_epoch: SetEpoch) -> None:
        self._topic = topic
        self.most = self._most_of_host = 0
        self._epoch = epoch
        self._set_epoch = set_epoch
        self._by_name: dict[str, Producer] = {}
        self._waiting: deque[tuple[Producer, asyncio.Future[None]]] = deque()
        self._exclusive: Producer | None = None
        self._gone = WeakSet[Producer]()  # what is pending holds them
        self._turns: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> KeysView[str]:
        """The names of those that are open."""
        return self._by_name.keys()

    async def free_name(self, producer: Producer) -> None:
        """Have a producer of that name gone whose client does not live any more: nobody may have told of its end."""
        old = self._by_name.get(producer.name)
        if old is not None and old.connection is not producer.connection:
            await old.connection.lives()

    async def settled(self, name: str) -> None:
        """Wait until everything is stored, or has failed, that producers of that name sent which are gone."""
        for producer in [each for each in self._gone if each.name == name]:
            await producer.settled()

    async def admit(self, producer: Producer, on_wait: Callable[[], None]) -> None:
        """Return once the producer may publish; calls `on_wait` if it has to wait for exclusive access.

        Raises:
            BrokerRefusal: it is not admitted: ProducerBusy or ProducerFenced.
        """
        self._check_name(producer)
        plan = self._plan(producer)
        if plan.admission is Admission.WAIT:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((producer, turn))
            on_wait()
            await turn
            self.check_open(producer)  # between its turn and this
            return
        if plan.admission in (Admission.BUSY, Admission.FENCED):
            code = pb.ProducerBusy if plan.admission is Admission.BUSY else pb.ProducerFenced
            raise BrokerRefusal(code, f"{self._topic} does not admit producer {producer.name}: {plan.reason}")
        if plan.admission is Admission.FENCE_OTHERS:
            self._fence_others(producer)
        self._check_count(producer)
        if plan.admission is Admission.SHARED:
            self._add(producer)
        else:
            await self._give(producer, plan.epoch)

    def _check_count(self, producer: Producer) -> None:
        """Raise BrokerRefusal if there may be no more producers, or no more from the address of this one."""
        if 0 < self.most <= len(self._by_name):
            raise BrokerRefusal(
                pb.ProducerBusy,
                f"{self._topic} has {len(self._by_name)} producers, the most that maxProducersPerTopic allows",
            )
        if self._most_of_host <= 0:
            return
        host = producer.connection.host
        count = sum(each.connection.host == host for each in self._by_name.values())
        if self._most_of_host <= count:
            raise BrokerRefusal(
                pb.ProducerBusy,
                f"{self._topic} has {count} producers from {host}, the most that maxSameAddressProducersPerTopic "
                "allows",
            )

    def check_open(self, producer: Producer) -> None:
        """Raise BrokerRefusal if an admitted producer was closed since: its client tries again, unless it is fenced."""
        if producer.fenced:
            raise BrokerRefusal(pb.ProducerFenced, f"producer {producer.name} of {self._topic} was fenced out")
        if producer.closed:
            raise BrokerRefusal(pb.ServiceNotReady, f"{self._topic} is closed here: look it up again")

    def remove(self, producer: Producer) -> None:
        """Forget a producer, admitted or waiting; the next one that waits gets the topic once it is free."""
        producer.closed = True
        for place in list(self._waiting):
            if place[0] is producer:
                self._waiting.remove(place)
                place[1].cancel()
        if self._by_name.get(producer.name) is producer:
            del self._by_name[producer.name]
            self._gone.add(producer)
        if self._exclusive is producer:
            self._exclusive = None
        self._promote()

    def disconnect(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Close every producer and tell its client, which looks the topic up again, or goes to `moved_to`."""
        for producer, turn in list(self._waiting):
            if not turn.done():
                turn.set_exception(BrokerRefusal(pb.ServiceNotReady, f"{self._topic} is closed here: look it up again"))
            producer.closed = True
        self._waiting.clear()
        for producer in self:
            self._expel(producer, moved_to)
        self._exclusive = None

    def configure(self, settings: BrokerSettings, *, encrypted: bool) -> None:
        """Keep to what holds now: how many producers there may be; those that encrypt nothing go if all have to."""
        self.most = settings.max_producers_per_topic
        self._most_of_host = settings.max_producers_per_topic_and_host
        if encrypted:
            self.close_those(lambda producer: not producer.request.encrypted)

    def close_those(self, matches: Callable[[Producer], bool]) -> None:
        """Close the producers that match and tell their clients, which try again and hear why they are refused."""
        for producer in self:
            if matches(producer):
                self._expel(producer)
                self.remove(producer)

    def _check_name(self, producer: Producer) -> None:
        """Raise BrokerRefusal if the name is taken; who waits for its owner to go, or fences it out, may have it."""
        old = self._by_name.get(producer.name)
        if old is None:
            return
        if producer.succeeds(old):
            self.remove(old)
        elif producer.request.mode not in OUTLASTING:
            raise BrokerRefusal(
                pb.ProducerBusy, f"producer {producer.name} is connected to {self._topic} already: choose another name"
            )

    def _plan(self, producer: Producer) -> AccessPlan:
        return plan_access(
            AccessMode(producer.request.mode),
            producers=len(self._by_name),
            exclusive="" if self._exclusive is None else self._exclusive.name,
            waiting=len(self._waiting),
            given_epoch=producer.request.topic_epoch,
            topic_epoch=self._epoch,
        )

    def _add(self, producer: Producer) -> None:
        producer.topic_epoch = self._epoch
        self._by_name[producer.name] = producer

    async def _give(self, producer: Producer, epoch: int) -> None:
        """Give the topic to one producer alone, once its epoch is durable."""
        self._exclusive = producer
        try:
            await self._set_epoch(epoch)
        except BaseException:
            self.remove(producer)
            raise
        self._epoch = max(self._epoch, epoch)
        self.check_open(producer)
        if self._exclusive is not producer:
            raise BrokerRefusal(pb.ServiceNotReady, f"{self._topic} is closed here: look it up again")
        self._add(producer)

    def _fence_others(self, producer: Producer) -> None:
        error = BrokerRefusal(pb.ProducerFenced, f"producer {producer.name} has fenced {self._topic}")
        for waiting, turn in self._waiting:
            waiting.closed = waiting.fenced = True
            if not turn.done():
                turn.set_exception(error)
        self._waiting.clear()
        for other in self:
            other.fenced = True
            self._expel(other)
        if self._exclusive is not None:
            self._exclusive.closed = self._exclusive.fenced = True
            self._exclusive = None

    def _expel(self, producer: Producer, moved_to: ServiceUrls = NOWHERE) -> None:
        producer.closed = True
        self._by_name.pop(producer.name, None)
        self._gone.add(producer)
        producer.connection.disconnect_producer(producer, moved_to)

    def _promote(self) -> None:
        """Give the topic to the first that waits, if nobody has it."""
        while self._waiting and not self._by_name and self._exclusive is None:
            producer, turn = self._waiting.popleft()
            if turn.done():
                continue
            self._exclusive = producer
            task = asyncio.get_running_loop().create_task(self._give_turn(producer, turn))
            self._turns.add(task)
            task.add_done_callback(self._turns.discard)

    async def _give_turn(self, producer: Producer, turn: "asyncio.Future[None]") -> None:
        try:
            plan = plan_access(
                AccessMode.WAIT_FOR_EXCLUSIVE,
                producers=0,
                exclusive="",
                waiting=0,
                given_epoch=producer.request.topic_epoch,
                topic_epoch=self._epoch,
            )
            if plan.admission is not Admission.EXCLUSIVE:
                self.remove(producer)
                raise BrokerRefusal(pb.ProducerFenced, f"{self._topic}: {plan.reason}")
            await self._give(producer, plan.epoch)
        except Exception as error:
            if not turn.done():
                turn.set_exception(error)
        else:
            if turn.done():  # its client left meanwhile
                self.remove(producer)
            else:
                turn.set_result(None)


def check_encrypted(topic: TopicName, producer: Producer) -> None:
    """Raise BrokerRefusal if the producer encrypts nothing, of a topic that takes only what is encrypted."""
    if not producer.request.encrypted:
        raise BrokerRefusal(pb.MetadataError, f"{topic} takes encrypted messages only")
