"""Rates per second of producers and consumers, sampled by the clock; those of topics are their sums, as in Pulsar.

Clients count by the batch. A sample takes what they counted since the one before, or since they came. Samples are
`statsUpdateFrequencyInSecs` apart.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mledger.broker.periodic_check import PeriodicCheck
from mledger.metastore.runtime.times import steady_ms

if TYPE_CHECKING:
    from mledger.broker.topics.producers.producer import Producer
    from mledger.broker.topics.served_topic import ServedTopic
    from mledger.broker.topics.subscriptions.consumer import Consumer

IN_A_ROW = 500
"""So many clients are sampled before other work of the loop has its turn."""


class SampledRates:
    """The rates of `count` counters that begin at 0, by a clock that nobody sets; 0 before the first sample."""

    __slots__ = ("_at_ms", "_before", "per_second")

    def __init__(self, count: int) -> None:
        self.per_second = (0.0,) * count
        self._before: Sequence[int] = (0,) * count
        self._at_ms = steady_ms()

    def sample(self, counted: Sequence[int]) -> None:
        """The counters are now so high."""
        now_ms = steady_ms()
        passed_ms = now_ms - self._at_ms
        if passed_ms > 0:
            changes = zip(counted, self._before, strict=True)
            self.per_second = tuple((now - before) * 1000 / passed_ms for now, before in changes)
            self._before, self._at_ms = counted, now_ms


class RatesIn(NamedTuple):
    """What is published a second: messages, bytes, and chunks of messages."""

    messages: float
    size: float
    chunks: float

    @property
    def average_size(self) -> float:
        """The bytes of a message, 0 without any."""
        return self.size / self.messages if self.messages else 0.0


class RatesOut(NamedTuple):
    """What consumers do a second: messages and bytes sent to them, messages given back, acknowledged, chunks sent."""

    messages: float
    size: float
    redelivered: float
    acked: float
    chunks: float


def rates_in(producers: "Iterable[Producer]") -> RatesIn:
    """Those of some producers together."""
    return RatesIn(*_sums([each.rates for each in producers], len(RatesIn._fields)))


def rates_out(consumers: "Iterable[Consumer]") -> RatesOut:
    """Those of some consumers together."""
    return RatesOut(*_sums([each.rates for each in consumers], len(RatesOut._fields)))


def _sums(rates: Sequence[SampledRates], count: int) -> list[float]:
    return [sum(each.per_second[index] for each in rates) for index in range(count)]


class RateSampler:
    """Samples all `topics` and their clients by its `check`, once in `interval_s` seconds."""

    def __init__(self, topics: "Callable[[], Iterable[ServedTopic]]", interval_s: float) -> None:
        self._topics = topics
        self.check = PeriodicCheck("rates", lambda: interval_s, self.look)

    async def look(self, _: float) -> None:
        """Sample every topic and client, some at a time."""
        for number, sampled in enumerate(self._sampled(), 1):
            if sampled is not None:
                sampled.sample()
            if number % IN_A_ROW == 0:
                await asyncio.sleep(0)

    def _sampled(self) -> "Iterator[ServedTopic | Producer | Consumer | None]":
        """The topics and clients; None for each subscription, which takes its time, too."""
        for topic in self._topics():
            yield topic
            yield from topic.producers
            for subscription in topic.subscriptions:
                yield None
                yield from list(subscription.consumers)
