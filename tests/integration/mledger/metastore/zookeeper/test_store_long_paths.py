"""A path that does not fit into a request is refused here: ZooKeeper would end the connection, with all that waits."""

import pytest

from mledger.metastore.errors import InvalidName
from mledger.metastore.store import Create, SessionState
from mledger.metastore.url import open_store
from tests.support.aio import run

LONG = "/" + 1_100_000 * "n"
REQUESTS = {
    "get": lambda store: store.get(LONG),
    "get_many": lambda store: store.get_many([LONG]),
    "exists": lambda store: store.exists(LONG),
    "children": lambda store: store.children(LONG),
    "children_many": lambda store: store.children_many([LONG]),
    "create": lambda store: store.create(LONG),
    "multi": lambda store: store.multi([Create(LONG)]),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_path_that_does_not_fit_is_refused_and_the_connection_stays(metadata_url, name):
    async def main():
        async with await open_store(metadata_url) as store:
            with pytest.raises(InvalidName, match="too long"):
                await REQUESTS[name](store)
            assert store.session_state is SessionState.CONNECTED
            await store.sync()

    run(main())
