"""What topics of a namespace have together."""

from mledger.broker.process.storage_metrics import add_storage, add_waiting
from mledger.broker.process.topic_readings import (
    StorageReading,
    StoredSubscriptionReading,
    SubscriptionReading,
    TopicReading,
    plan_namespaces,
)
from mledger.broker.topics.backlog_figures import QuotaLimits
from mledger.broker.topics.compaction.compaction_counts import CompactionCounts
from mledger.broker.topics.storage_figures import NO_LATENCIES, NO_SIZES, StorageRates
from mledger.metastore.cluster.service_policies import QuotaKind
from mledger.metastore.runtime.exposition import Families, expose
from mledger.metastore.runtime.network.http import HttpRequest


def reading(namespace, *, size=0, delayed=0, replayed=0, stored=True):
    latencies = NO_LATENCIES._replace(buckets=(1,) * len(NO_LATENCIES.buckets), sum=size)
    kept = StoredSubscriptionReading(0, replayed, 5, (0.0, 0, 0, 0))
    subscription = SubscriptionReading("s", 0, False, delayed, (), 0, None, (0, 0), kept if stored else None)
    evictions = {QuotaKind.SIZE: 1, QuotaKind.AGE: 2}
    limits, compaction = QuotaLimits(1, 2), CompactionCounts()
    storage = StorageReading(size, evictions, StorageRates(1.0, 2.0, 3.0), latencies, NO_SIZES, 3, limits, compaction)
    return TopicReading(namespace, "t", {"pulsar_in_bytes": size}, (), [subscription], storage if stored else None)


def test_a_namespace_has_the_sums_of_its_stored_topics():
    topics = [reading("a/b", size=3), reading("a/c"), reading("a/b", size=4), reading("a/b", stored=False)]
    found = {each.namespace: each for each in plan_namespaces(topics)}
    assert found.keys() == {"a/b", "a/c"}
    both = found["a/b"]
    assert (both.topic, both.figures, both.storage.backlog_size) == ("", {"pulsar_in_bytes": 7}, 7)
    assert both.storage.evictions == {QuotaKind.SIZE: 2, QuotaKind.AGE: 4}
    assert (both.storage.rates, both.storage.limits) == (StorageRates(2, 4, 6), None)
    assert (both.storage.latencies.buckets[0], both.storage.latencies.sum) == (2, 7)


def test_a_namespace_has_no_ages_and_limits_though_it_has_one_topic():
    (found,) = plan_namespaces([reading("a/b", size=3)])
    assert (found.storage.backlog_size, found.storage.limits, found.storage.compaction) == (3, None, None)
    assert found.storage.backlog_age_s == 0


def test_topics_that_are_not_stored_have_no_storage():
    (found,) = plan_namespaces([reading("a/b", stored=False)])
    assert found.storage is None


def test_buckets_have_pulsars_names_and_count_apart():
    families, (found,) = Families(), plan_namespaces([reading("a/b", delayed=6, replayed=7)])
    add_storage(families, found.storage, {"namespace": "a/b"})
    add_waiting(families, found, {"namespace": "a/b"})
    lines = expose(families, HttpRequest({}), process=False).body.decode().splitlines()
    for expected in (
        "pulsar_storage_write_latency_le_0_5",
        "pulsar_storage_write_latency_le_1000",
        "pulsar_storage_write_latency_overflow",
    ):
        assert f'{expected}{{namespace="a/b"}} 1.0' in lines
    assert 'pulsar_storage_write_latency_count{namespace="a/b"} 10.0' in lines
    assert 'pulsar_entry_size_le_overflow{namespace="a/b"} 0.0' in lines
    assert 'pulsar_subscription_delayed{namespace="a/b"} 6.0' in lines
    assert 'pulsar_subscription_in_replay{namespace="a/b"} 7.0' in lines
