"""How often each consumer may subscribe to a topic, by Pulsar's subscribe rate. No I/O.

All consumers are counted anew in each period.
"""

from msgspec import Struct

from mledger.broker.refusals import BrokerRefusal
from mledger.metastore.cluster.service_policies import ThrottleRate
from mledger.pb import PulsarApi_pb2 as pb

TOO_OFTEN = "Subscribe limited by subscribe rate limit per consumer."
"""Pulsar's words."""


class Subscriber(Struct, frozen=True):
    """A consumer, by what stays the same when it subscribes again."""

    host: str
    name: str
    consumer_id: int


class SubscribeLimiter:
    """Counts how often consumers subscribe to one topic."""

    def __init__(self) -> None:
        self._began_ms = 0
        self._counts: dict[Subscriber, int] = {}

    def take(self, subscriber: Subscriber, rate: ThrottleRate, now_ms: int) -> None:
        """Count a subscribe at `now_ms`. BrokerRefusal if there were as many as `rate` allows in this period."""
        if rate.messages <= 0:
            self._counts.clear()
            return
        if not 0 <= now_ms - self._began_ms < max(1, rate.period_s) * 1000:
            self._began_ms = now_ms
            self._counts.clear()
        count = self._counts.get(subscriber, 0)
        if count >= rate.messages:
            raise BrokerRefusal(pb.NotAllowedError, TOO_OFTEN)
        self._counts[subscriber] = count + 1
