"""A bookie's cookie as the metadata store has it when the bookie starts, even over a server that lags."""

import pytest

from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.process.cookie_check import establish
from mledger.bookie.server.storage.directories.directory import BookieDirectory
from mledger.metastore.cluster.cookies import delete_cookie
from mledger.metastore.cluster.layout import initialize, instance_id
from mledger.metastore.records.paths import LEDGERS, cookie_path
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run


class LaggingCookie:
    """A store on a lagging server: before a sync it still has the node at `path`."""

    def __init__(self, store, path, node):
        self._store, self._path, self._node = store, path, node

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def get(self, path):
        return self._node if path == self._path and self._node is not None else await self._store.get(path)

    async def sync(self):
        self._node = None


def test_a_decommissioned_bookie_does_not_start_over_a_server_that_still_has_its_cookie(tmp_path):
    async def main():
        directory = BookieDirectory(str(tmp_path / "bookie"))
        async with await open_store("memory:") as store:
            await initialize(store)
            identity = directory, "bookie", await instance_id(store), LEDGERS
            await establish(store, *identity)
            await ServingBookie(directory).close()
            directory.finish()
            path = cookie_path("bookie")
            lagging = LaggingCookie(store, path, await store.get(path))
            await delete_cookie(store, "bookie", ANY_VERSION)
            with pytest.raises(InvalidBookieDirectory, match="it was decommissioned"):
                await establish(lagging, *identity)
        directory.unlock()

    run(main())
