"""A broker's sums over all of its topics, and those of namespaces, as Pulsar's dashboards of brokers show them.

They are made from what a scrape has gathered of topics or namespaces already: nothing is counted for them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mledger.broker.process.topic_readings import TopicReading
from mledger.metastore.runtime.exposition import Families

_SUMS = {
    "producers_count": ("pulsar_producers_count", "Producers connected to this broker"),
    "consumers_count": ("pulsar_consumers_count", "Consumers connected to this broker"),
    "rate_in": ("pulsar_rate_in", "Messages published to this broker a second"),
    "rate_out": ("pulsar_rate_out", "Messages that this broker sent to consumers a second"),
    "throughput_in": ("pulsar_throughput_in", "Bytes published to this broker a second"),
    "throughput_out": ("pulsar_throughput_out", "Bytes that this broker sent to consumers a second"),
    "storage_size": ("pulsar_storage_size", "Payload bytes kept of topics open here"),
    "storage_logical_size": ("pulsar_storage_size", "Payload bytes kept of topics open here"),
    "storage_write_rate": ("pulsar_storage_write_rate", "Entries of this broker's topics stored a second"),
    "storage_read_rate": ("pulsar_storage_read_rate", "Entries read by cursors a second"),
    "storage_read_cache_misses_rate": ("pulsar_storage_read_cache_misses_rate", "Entries read from bookies a second"),
    "msg_backlog": ("pulsar_msg_backlog", "Entries not acknowledged, over all cursors of topics open here"),
}
_EVICTIONS = "storage_backlog_quota_exceeded_evictions"
_LEDGER_RATES = {
    "pulsar_ml_AddEntryMessagesRate": "Entries stored a second",
    "pulsar_ml_ReadEntriesRate": "Entries read by cursors a second",
}


def add_broker_sums(families: Families, topics: Sequence[TopicReading], cluster: Mapping[str, str]) -> None:
    """Add the sums of what `families` has of `topics`; those that are not stored are counted from their readings."""
    unstored = [each for each in topics if each.storage is None]
    for name, means, more in (
        ("topics_count", "Topics open here", len(unstored)),
        ("subscriptions_count", "Subscriptions of topics open here", sum(len(each.subscriptions) for each in unstored)),
    ):
        families.gauge(f"pulsar_broker_{name}", means, families.sum_of(f"pulsar_{name}") + more, cluster)
    for name, (summed, means) in _SUMS.items():
        families.gauge(f"pulsar_broker_{name}", means, families.sum_of(summed), cluster)
    for quota in ("size", "time"):
        count, labels = families.sum_of(f"pulsar_{_EVICTIONS}", quota_type=quota), {**cluster, "quota_type": quota}
        families.total(f"pulsar_broker_{_EVICTIONS}", "How often cursors gave up entries", count, labels)
    _add_ledger_rates(families, topics, cluster)


def _add_ledger_rates(families: Families, topics: Sequence[TopicReading], cluster: Mapping[str, str]) -> None:
    """Add what managed ledgers store and read, by namespace, whatever else is shown of single topics."""
    found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in topics:
        if each.storage is not None:
            sums = found[each.namespace]
            sums[0] += each.storage.rates.written
            sums[1] += each.storage.rates.read
    for namespace, sums in found.items():
        for (name, means), rate in zip(_LEDGER_RATES.items(), sums, strict=True):
            families.gauge(name, means, rate, {**cluster, "namespace": namespace})
