"""A namespace's storage policies, as Pulsar 4.2.4 writes them."""

import pytest

from mledger.metastore.cluster.policies import (
    NO_POLICIES,
    Persistence,
    Retention,
    decode_namespace_policies,
    namespace_policies_path,
    read_namespace_policies,
)
from mledger.metastore.errors import RecordError
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.paths import TopicName
from tests.support.aio import run

PATH = "/admin/policies/t/n"
TOPIC = TopicName("t", "n", "x")


def test_the_policies_of_a_topic_are_those_of_its_namespace() -> None:
    assert namespace_policies_path(TOPIC) == PATH
    assert namespace_policies_path(TopicName("t", "n", "x", cluster="c")) == "/admin/policies/t/c/n"


@pytest.mark.parametrize(
    ("data", "retention"),
    [
        (
            b'{"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":-1}}',
            Retention(60, -1),
        ),
        (b'{"retention_policies":{}}', Retention(0, 0)),
        (b'{"retention_policies":null}', None),
        (b'{"deleted":false}', None),
    ],
)
def test_retention_is_read(data, retention) -> None:
    assert decode_namespace_policies(data, PATH).retention == retention


@pytest.mark.parametrize(
    ("data", "persistence"),
    [
        (
            b'{"persistence":{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":1}}',
            Persistence(3, 2, 1),
        ),
        (b'{"persistence":{"bookkeeperEnsemble":0,"bookkeeperWriteQuorum":0,"bookkeeperAckQuorum":0}}', None),
        (b'{"persistence":{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":1}}', None),
        (b'{"deleted":false}', None),
    ],
)
def test_the_quorums_of_new_ledgers_are_read(data, persistence) -> None:
    assert decode_namespace_policies(data, PATH).persistence == persistence


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b'{"retention_policies":3}',
        b'{"retention_policies":{"retentionTimeInMinutes":"1"}}',
        b'{"retention_policies":{"retentionSizeInMB":-2}}',
        b'{"persistence":{"bookkeeperEnsemble":"3"}}',
    ],
)
def test_unreadable_policies_are_refused_by_their_path(data) -> None:
    with pytest.raises(RecordError, match=PATH):
        decode_namespace_policies(data, PATH)


def test_a_namespace_without_policies_has_none() -> None:
    async def main():
        assert await read_namespace_policies(MemoryStore(), TOPIC) == NO_POLICIES

    run(main())


def test_a_node_of_a_namespace_that_has_lost_its_policies_cannot_be_read() -> None:
    async def main():
        store = MemoryStore()
        await store.create(PATH, b"", parents=True)
        with pytest.raises(RecordError, match=PATH):
            await read_namespace_policies(store, TOPIC)

    run(main())


def test_policies_kept_in_another_store_cannot_be_read() -> None:
    async def main():
        store = MemoryStore()
        await store.create("/admin/local-policies/t/n", b"{}", parents=True)
        with pytest.raises(RecordError, match="configuration store"):
            await read_namespace_policies(store, TOPIC)

    run(main())
