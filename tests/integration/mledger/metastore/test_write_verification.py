"""A check decides whether a write of unknown outcome was carried out; no server answers a check from an old state."""

import pytest

from mledger.metastore.batched_store import batched
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import changed_since, is_there
from tests.support.aio import run


@pytest.mark.parametrize("through", [lambda store: store, batched], ids=["alone", "batched"])
def test_a_check_tells_whether_a_node_was_changed(any_metadata_url, through):
    async def main():
        async with through(await open_store(any_metadata_url)) as store:
            assert not await is_there(store, "/node")
            with pytest.raises(NodeNotFound):
                await changed_since(store, "/node", 0)
            await store.create("/node", b"0")
            assert await is_there(store, "/node")
            assert await changed_since(store, "/node", 0) is None
            await store.put("/node", b"1", 0)
            node = await changed_since(store, "/node", 0)
            assert (node.data, node.version) == (b"1", 1)
            assert await is_there(store, "/node")

    run(main())
