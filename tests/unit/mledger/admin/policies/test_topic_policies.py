"""Policies are read as they are now, even if a server of the metadata store lags (M10)."""

from mledger.admin.policies.topic_policies import PolicyReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.metastore.cluster.policies import Retention
from mledger.metastore.url import open_store
from tests.support.aio import run

POLICIES = "/admin/policies/public/default"


def policies(minutes: int) -> bytes:
    return b'{"retention_policies": {"retentionTimeInMinutes": %d, "retentionSizeInMB": -1}}' % minutes


class LaggingPolicies:
    """A reader on a lagging server: before a sync it does not know the last change of the policies."""

    def __init__(self, store, old):
        self._store = store
        self._old = {POLICIES: old}

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def sync(self):
        self._old = {}
        await self._store.sync()

    async def get_many(self, paths):
        return [self._old.get(path, node) for path, node in zip(paths, await self._store.get_many(paths), strict=True)]


def test_policies_that_a_lagging_server_does_not_know_yet_are_read():
    async def main():
        async with await open_store("memory:") as store:
            await store.create(POLICIES, policies(0), parents=True)
            old = await store.get(POLICIES)
            await store.put(POLICIES, policies(60), 0)
            reader = LaggingPolicies(store, old)
            bookkeeper = BookKeeperReader(reader)
            found = await PolicyReader(reader, bookkeeper).policies("public/default/persistent/topic")
            assert found.namespace.retention == Retention(60, -1)
            await bookkeeper.close()

    run(main())
