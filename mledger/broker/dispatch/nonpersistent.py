"""Who gets the messages of a non-persistent topic: whoever has permits now, else nobody (D12).

- Nothing is read, held, replayed or delayed: an entry goes out when it is published, or is dropped.
- A consumer without permits, or whose connection takes no more, gets nothing. A batch may overshoot permits (D4).
- Exclusive and failover: the active consumer gets everything (`plan_active`); another one is active at once.
- Shared: each entry goes to the next consumer in turn, those with the lowest priority number before all others.
- Key_Shared: an entry goes to the consumer of its key's hash, or to nobody. Nothing drains when hashes move.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.dispatcher import ActiveNotice, Delivery
from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.broker.dispatch.keys.key_assignment import make_assignment
from mledger.broker.dispatch.round_robin import RoundRobin
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.facts import FactsRun


class Handout(NamedTuple):
    """Who gets which entries of a run, each consumer its own in order, and how many messages nobody gets."""

    deliveries: Sequence[Delivery]
    dropped: int


class NonPersistentDispatcher(ABC):
    """Gives a subscription's entries to its consumers as they are published."""

    def __init__(self) -> None:
        self.consumers: list[DispatchConsumer] = []

    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes. Raises ConsumerBusy or ConsumerNotAssignable, before any change."""
        consumer.stuffed = True  # not one entry for a connection that takes no more
        self.consumers.append(consumer)

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone. Does nothing for an unknown one."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)

    def flow(self, consumer: DispatchConsumer, permits: int) -> None:
        """A consumer may be sent so many messages more."""
        consumer.permits += permits

    def written(self) -> None:
        """Connections that took no more may take more again."""
        for consumer in self.consumers:
            self.flow(consumer, 0)

    def notices(self, now_ms: int) -> list[ActiveNotice]:
        """Who is to be told now whether it is active; call it when consumers have changed."""
        return []

    def give(self, run: FactsRun) -> Handout:
        """Divide published entries; consumers' permits change at once."""
        shares: dict[DispatchConsumer, list[int]] = {}
        dropped = 0
        for index, messages in enumerate(run.messages):
            consumer = self._next(run, index)
            if consumer is None:
                dropped += messages
            else:
                consumer.permits -= messages
                shares.setdefault(consumer, []).append(index)
        return Handout([_delivery(run, consumer, indexes) for consumer, indexes in shares.items()], dropped)

    @abstractmethod
    def _next(self, run: FactsRun, index: int) -> DispatchConsumer | None:
        """Who gets the entry at `index`, which is available; None for nobody."""


def _delivery(run: FactsRun, consumer: DispatchConsumer, indexes: list[int]) -> Delivery:
    whole = len(indexes) == len(run.messages)
    return Delivery(
        consumer, 0, range(len(indexes)) if whole else indexes, sum(run.messages[at] for at in indexes), None
    )


class NonPersistentExclusive(NonPersistentDispatcher):
    """The active consumer gets everything."""

    def __init__(
        self, settings: DispatchSettings, *, failover: bool = False, topic: str = "", partition: int = -1
    ) -> None:
        """As ExclusiveDispatcher, which chooses the active consumer; there is nothing to wait for."""
        super().__init__()
        at_once = replace(settings, failover_delay_ms=0)
        self._chooser = ExclusiveDispatcher(at_once, failover=failover, topic=topic, partition=partition)

    @property
    def active(self) -> DispatchConsumer | None:
        """The consumer that gets everything; None if there is none."""
        return self._chooser.active

    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes; a second one of an exclusive subscription raises ConsumerBusy (D2)."""
        self._chooser.add(consumer, now_ms)
        super().add(consumer, now_ms)

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; the next one takes its place."""
        self._chooser.remove(consumer, now_ms)
        super().remove(consumer, now_ms)

    def notices(self, now_ms: int) -> list[ActiveNotice]:
        """All of a failover subscription after a change, newcomers if nothing changed (D2)."""
        return self._chooser.notices(now_ms)

    def _next(self, run: FactsRun, index: int) -> DispatchConsumer | None:
        active = self._chooser.active
        return active if active is not None and active.available else None


class NonPersistentShared(NonPersistentDispatcher):
    """Consumers take entries in turn, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._ready = RoundRobin()

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone."""
        super().remove(consumer, now_ms)
        self._ready.remove(consumer)

    def flow(self, consumer: DispatchConsumer, permits: int) -> None:
        """A consumer may be sent so many messages more."""
        super().flow(consumer, permits)
        if consumer in self.consumers:
            self._ready.offer(consumer)

    def _next(self, run: FactsRun, index: int) -> DispatchConsumer | None:
        turn = self._ready.next()
        if turn is None:
            return None
        consumer, _ = turn
        self._ready.turned(consumer)
        return consumer


class NonPersistentKeyShared(NonPersistentDispatcher):
    """Entries go to the consumers of their keys. Every run has its key hashes."""

    def __init__(self, settings: DispatchSettings, *, sticky: bool = False) -> None:
        """`sticky`: consumers give their ranges."""
        super().__init__()
        self.assignment = make_assignment(settings, sticky=sticky)

    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes; ConsumerNotAssignable if it cannot have key ranges."""
        self.assignment.add(consumer)
        super().add(consumer, now_ms)

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; its keys go to others."""
        if consumer in self.consumers:
            self.assignment.remove(consumer)
        super().remove(consumer, now_ms)

    def _next(self, run: FactsRun, index: int) -> DispatchConsumer | None:
        if run.key_hashes is None:
            raise ValueError("a run has no key hashes: Key_Shared needs them")
        owner = self.assignment.owner(run.key_hashes[index])
        return owner if owner is not None and owner.available else None
