"""A broker's sums, from what was gathered of its topics."""

from mledger.broker.process.broker_sums import add_broker_sums
from mledger.broker.process.topic_readings import StorageReading, TopicReading
from mledger.broker.topics.storage_figures import NO_LATENCIES, NO_SIZES, BucketCounts, StorageRates
from mledger.metastore.runtime.exposition import Families

CLUSTER = {"cluster": "west"}
UNSTORED = TopicReading("public/default", "non-persistent://public/default/t", {}, (), (), None)


def values(families):
    """The values of each metric that was gathered."""
    return {family.name: [sample.value for sample in family.samples] for family in families}


def test_sums_are_those_of_all_topics_and_namespaces():
    families = Families()
    for namespace, rate, topics in (("public/default", 2.5, 3), ("shop/eu", 4.0, 1)):
        labels = CLUSTER | {"namespace": namespace}
        families.gauge("pulsar_rate_in", "", rate, labels)
        families.gauge("pulsar_topics_count", "", topics, labels)
        for quota in ("size", "time"):
            name = "pulsar_storage_backlog_quota_exceeded_evictions"
            families.total(name, "", 2 if quota == "time" else 1, labels | {"quota_type": quota})
    add_broker_sums(families, [UNSTORED], CLUSTER)
    found = values(families)
    assert found["pulsar_broker_rate_in"] == [6.5]
    assert found["pulsar_broker_topics_count"] == [5]
    assert found["pulsar_broker_storage_backlog_quota_exceeded_evictions"] == [2, 4]


def test_rates_of_ledgers_are_by_namespace():
    families, rates = Families(), StorageRates(2.0, 3.0, 1.0)
    stored = StorageReading(0, {}, rates, NO_LATENCIES, NO_SIZES)
    topics = [UNSTORED, *(UNSTORED._replace(namespace=name, storage=stored) for name in ("a/b", "a/b", "c/d"))]
    add_broker_sums(families, topics, CLUSTER)
    found = values(families)
    assert found["pulsar_ml_AddEntryMessagesRate"] == [4.0, 2.0]
    assert found["pulsar_ml_ReadEntriesRate"] == [6.0, 3.0]
    assert found["pulsar_ml_ReadEntriesOpsCacheMissesRate"] == [2.0, 1.0]


def test_latencies_and_sizes_of_entries_are_rates_of_the_same_samples():
    families = Families()
    latencies, sizes = BucketCounts((30, 0, 0, 0, 0, 0, 0, 0, 0, 10), 99), BucketCounts((0, 40, *7 * (0,)), 8_000)
    stored = StorageReading(0, {}, StorageRates(2.0), latencies, sizes)
    add_broker_sums(families, [UNSTORED._replace(storage=stored)], CLUSTER)
    by_name = {family.name: family.samples for family in families}
    shown = {each.labels["quantile"]: each.value for each in by_name["pulsar_ml_AddEntryLatencyBuckets"]}
    assert (shown["0.0_0.5"], shown["0.5_1.0"], len(shown)) == (1.5, 0.0, 9)
    assert [each.value for each in by_name["pulsar_ml_AddEntryLatencyBuckets_OVERFLOW"]] == [0.5]
    shown = {each.labels["quantile"]: each.value for each in by_name["pulsar_ml_EntrySizeBuckets"]}
    assert (shown["128.0_512.0"], sum(shown.values())) == (2.0, 2.0)
    assert [each.value for each in by_name["pulsar_ml_AddEntryBytesRate"]] == [400.0]
    assert [each.value for each in by_name["pulsar_ml_AddEntrySucceed"]] == [40]


def test_a_broker_without_topics_has_sums_too():
    families = Families()
    add_broker_sums(families, [], CLUSTER)
    found = values(families)
    assert len(found) == 15
    assert {value for each in found.values() for value in each} == {0.0}
