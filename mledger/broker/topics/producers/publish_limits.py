"""What keeps publishers to the rates of their topic and of the whole broker.

A rate is kept after the fact: what was read is taken, and connections that publish are read on once the debt is paid.
"""

from mledger.admin.system_topics import is_for_brokers
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter, wait_ms
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.subscriptions.dispatchers import limiters
from mledger.metastore.cluster.service_policies import ThrottleRate
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.times import steady_ms


class BrokerPublishLimits:
    """The publish rate of a whole broker, which its topics share."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._rate = _broker_rate(settings)
        self.limiters = limiters(self._rate)

    def configure(self, settings: BrokerSettings) -> None:
        """Keep to what the settings say now; a rate that stays keeps its debt."""
        if (rate := _broker_rate(settings)) != self._rate:
            self._rate, self.limiters = rate, limiters(rate)

    def of_topic(self, name: TopicName, rate: ThrottleRate) -> "PublishLimits":
        """Those of a topic with this rate; the broker's do not hold for topics that brokers use."""
        return PublishLimits(_NO_LIMITS if is_for_brokers(name) else self, rate)


class PublishLimits:
    """The limits of one topic: its own rate, and that of the broker.

    `held_back` counts how often connections were read no more for them.
    """

    __slots__ = ("_broker", "_own", "_rate", "held_back", "limiters")

    def __init__(self, broker: BrokerPublishLimits, rate: ThrottleRate) -> None:
        self._broker, self._rate, self._own = broker, rate, limiters(rate)
        self.limiters: tuple[DispatchRateLimiter, ...] = (*self._own, *broker.limiters)
        self.held_back = 0

    def configure(self, rate: ThrottleRate) -> None:
        """Keep to this rate of the topic, and to the broker's as it is now; a rate that stays keeps its debt."""
        if rate != self._rate:
            self._rate, self._own = rate, limiters(rate)
        self.limiters = (*self._own, *self._broker.limiters)

    def take(self, messages: int, size: int) -> None:
        """Count messages and bytes as published now."""
        if self.limiters:
            now_ms = steady_ms()
            for limiter in self.limiters:
                limiter.take(messages, size, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """For how long they allow no more messages, in milliseconds; `now_ms` by `steady_ms`."""
        return wait_ms(self.limiters, now_ms)


def _broker_rate(settings: BrokerSettings) -> ThrottleRate:
    return ThrottleRate(settings.broker_publish_messages_per_s, settings.broker_publish_bytes_per_s)


_NO_LIMITS = BrokerPublishLimits(BrokerSettings())
