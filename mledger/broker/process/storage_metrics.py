"""A broker's metrics of what topics store, under Pulsar's names and in its buckets."""

from collections.abc import Mapping

from mledger.broker.process.topic_readings import StorageReading, TopicReading
from mledger.broker.topics.compaction.compaction_counts import CompactionCounts
from mledger.broker.topics.storage_figures import BucketCounts
from mledger.metastore.cluster.service_policies import QuotaKind
from mledger.metastore.runtime.exposition import Families

Labels = Mapping[str, str]

_QUOTA_TYPES = {QuotaKind.SIZE: "size", QuotaKind.AGE: "time"}
_LATENCIES = tuple(f"le_{each}" for each in ("0_5", 1, 5, 10, 20, 50, 100, 200, 1000))
_SIZES = tuple(f"le_{each}" for each in (128, 512, "1_kb", "2_kb", "4_kb", "16_kb", "100_kb", "1_mb", "overflow"))
_RATES = {
    "pulsar_storage_write_rate": "Entries stored a second",
    "pulsar_storage_read_rate": "Entries read by cursors a second",
    "pulsar_storage_read_cache_misses_rate": "Entries read from bookies a second",
}


def add_storage(families: Families, each: StorageReading, labels: Labels) -> None:
    """Add what a topic stores, or the topics of a namespace together."""
    gauge = families.gauge
    means = "Payload bytes that the slowest cursor has not acknowledged, estimated"
    gauge("pulsar_storage_backlog_size", means, each.backlog_size, labels)
    for (name, help_text), rate in zip(_RATES.items(), each.rates, strict=True):
        gauge(name, help_text, rate, labels)
    _add_buckets(families, "pulsar_storage_write_latency", (*_LATENCIES, "overflow"), each.latencies, labels)
    _add_buckets(families, "pulsar_entry_size", _SIZES, each.sizes, labels)
    for kind, count in each.evictions.items():
        name, means = "pulsar_storage_backlog_quota_exceeded_evictions", "How often cursors gave up entries"
        families.total(name, means, count, {**labels, "quota_type": _QUOTA_TYPES[kind]})
    if each.limits is not None:
        for name, means, value in (
            ("age_seconds", "Since the ledger of its oldest entry was closed; -1: not known", each.backlog_age_s),
            ("quota_limit", "Bytes that the backlog may have; -1: any number", each.limits.size),
            ("quota_limit_time", "Seconds that the backlog may be old; -1: any number", each.limits.age_s),
        ):
            gauge(f"pulsar_storage_backlog_{name}", means, value, labels)
    if each.compaction is not None:
        _add_compaction(families, each.compaction, labels)


def add_waiting(families: Families, each: TopicReading, labels: Labels) -> None:
    """Add what a namespace's subscriptions together wait to send."""
    for name, means, value in (
        ("delayed", "Messages that wait for their time", sum(one.delayed for one in each.subscriptions)),
        ("in_replay", "Entries that wait to be sent again", sum(one.in_replay for one in each.subscriptions)),
    ):
        families.gauge(f"pulsar_subscription_{name}", means, value, labels)


def add_index_size(families: Families, each: TopicReading, labels: Labels) -> None:
    """Add what the indexes of delayed messages take, of a topic or a namespace."""
    size = sum(one.index_bytes for one in each.subscriptions)
    means = "Bytes that indexes of delayed messages take in memory, estimated"
    families.gauge("pulsar_delayed_message_index_size_bytes", means, size, labels)


def _add_buckets(
    families: Families, name: str, buckets: tuple[str, ...], counted: BucketCounts, labels: Labels
) -> None:
    """As gauges, each bucket without those below it, as Pulsar has them."""
    values = (*counted.buckets, counted.observed, counted.sum)
    for suffix, value in zip((*buckets, "count", "sum"), values, strict=True):
        families.gauge(f"{name}_{suffix}", "Between the last two samples", value, labels)


def _add_compaction(families: Families, counts: CompactionCounts, labels: Labels) -> None:
    last = counts.last
    for name, means, value in (
        ("removed_event_count", "Messages that compactions removed", counts.removed),
        ("succeed_count", "Compactions that succeeded", counts.succeeded),
        ("failed_count", "Compactions that failed", counts.failed),
        ("duration_time_in_mills", "Milliseconds that the last compaction took", counts.duration_ms),
        ("read_throughput", "Bytes that it read a second", counts.per_second(last.read_bytes)),
        ("write_throughput", "Bytes that it wrote a second", counts.per_second(last.written_bytes)),
        ("compacted_entries_count", "Entries of the compacted ledger", counts.entries),
        ("compacted_entries_size", "Bytes of the compacted ledger", counts.size),
    ):
        families.gauge(f"pulsar_compaction_{name}", means, value, labels)
