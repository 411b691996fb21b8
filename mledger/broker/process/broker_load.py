"""What a broker has to do, from its open topics: the figures of its load report."""

from collections.abc import Collection, Sequence

from mledger.broker.lookup.broker_records import NO_USAGE, BrokerLoad, HostUsage
from mledger.broker.topics.client_rates import rates_in, rates_out
from mledger.broker.topics.served_topic import ServedTopic


def load_of(bundles: Collection[str], topics: Sequence[ServedTopic], host: HostUsage = NO_USAGE) -> BrokerLoad:
    """The load of a broker that serves these bundles and topics on `host`; rates are those of the last sample."""
    producers = [each for topic in topics for each in topic.producers]
    consumers = [each for topic in topics for subscription in topic.subscriptions for each in subscription.consumers]
    published, sent = rates_in(producers), rates_out(consumers)
    return BrokerLoad(
        bundles,
        len(topics),
        len(producers),
        len(consumers),
        published.messages,
        published.size,
        sent.messages,
        sent.size,
        host,
    )
