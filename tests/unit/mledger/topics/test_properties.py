"""Properties of topics, written beside a list of ledgers that another server may know better."""

import pytest

from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.partitioned_topic import (
    PartitionedTopic,
    decode_partitioned_topic,
    encode_partitioned_topic,
)
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from mledger.topics.properties import set_partitioned_properties, set_topic_properties
from tests.support.aio import run

TOPIC = TopicName.parse("persistent://t/n/topic")


async def write_behind(monkeypatch, path, before, after, write):
    """Have `write` set properties of the node's second version on a server that knows only the first; the node."""
    async with await open_store("memory:") as store:
        await store.create(path, before, parents=True)
        lagging = await store.get(path)
        version = await store.put(path, after, 0)
        get = store.get

        async def behind(_):
            return lagging

        with monkeypatch.context() as patched:
            patched.setattr(store, "get", behind)
            with pytest.raises(BadVersion):
                await write(store, TOPIC, {"owner": "alice"}, version)
        return await get(path)


def test_setting_properties_on_a_lagging_server_loses_no_ledger(monkeypatch):
    before, after = (ManagedLedgerInfo(tuple(map(LedgerInfo, ids))) for ids in [(1,), (1, 2)])
    path = TOPIC.managed_ledger_path
    records = map(encode_managed_ledger_info, (before, after))
    node = run(write_behind(monkeypatch, path, *records, set_topic_properties))
    assert decode_managed_ledger_info(node.data, path).value == after


def test_setting_properties_on_a_lagging_server_loses_no_partition(monkeypatch):
    before, after = PartitionedTopic(1), PartitionedTopic(3)
    path = TOPIC.partitioned_topic_path
    records = map(encode_partitioned_topic, (before, after))
    node = run(write_behind(monkeypatch, path, *records, set_partitioned_properties))
    assert decode_partitioned_topic(node.data, path) == after
