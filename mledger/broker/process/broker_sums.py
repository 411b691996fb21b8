"""A broker's sums over all of its topics, and those of namespaces, as Pulsar's dashboards of brokers show them.

They are made from what a scrape has gathered of topics or namespaces already: nothing is counted for them.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from mledger.broker.process.topic_readings import StorageReading, TopicReading, plan_namespaces
from mledger.broker.topics.storage_figures import LATENCY_BOUNDS_US, SIZE_BOUNDS, BucketCounts
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
_LATENCY_BOUNDS_MS = tuple(each / 1000 for each in LATENCY_BOUNDS_US)


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
    for each in plan_namespaces(topics):
        if each.storage is not None:
            _add_ledgers(families, each.storage, {**cluster, "namespace": each.namespace})


def _add_ledgers(families: Families, stored: StorageReading, labels: Mapping[str, str]) -> None:
    """Add the rates of a namespace; those of buckets come from their counts, which are of the same time."""
    latencies, sizes, written = stored.latencies, stored.sizes, stored.rates.written
    samples_a_second = written / latencies.observed if latencies.observed else 0.0
    for name, means, rate in (
        ("AddEntryMessagesRate", "Entries stored a second", written),
        ("AddEntryBytesRate", "Bytes stored a second", sizes.sum * samples_a_second),
        ("AddEntrySucceed", "Entries stored between the last two samples", latencies.observed),
        ("ReadEntriesRate", "Entries read by cursors a second", stored.rates.read),
        ("ReadEntriesOpsCacheMissesRate", "Entries read from bookies a second", stored.rates.missed),
    ):
        families.gauge(f"pulsar_ml_{name}", means, rate, labels)
    name, means = "pulsar_ml_AddEntryLatencyBuckets", "Entries stored a second, by the milliseconds that it took"
    _add_rates(families, name, means, _LATENCY_BOUNDS_MS, latencies, samples_a_second, labels)
    name, means = "pulsar_ml_EntrySizeBuckets", "Entries stored a second, by their bytes"
    _add_rates(families, name, means, SIZE_BOUNDS, sizes, samples_a_second, labels)


def _add_rates(
    families: Families,
    name: str,
    means: str,
    bounds: Sequence[float],
    counted: BucketCounts,
    samples_a_second: float,
    labels: Mapping[str, str],
) -> None:
    """Add the rate of each bucket, which Pulsar names in a label `quantile`; that above the last by its own name."""
    *rates, above = (count * samples_a_second for count in counted.buckets)
    for (low, high), rate in zip(pairwise((0, *bounds)), rates, strict=True):
        families.gauge(name, means, rate, {**labels, "quantile": f"{low:.1f}_{high:.1f}"})
    families.gauge(f"{name}_OVERFLOW", means, above, labels)
