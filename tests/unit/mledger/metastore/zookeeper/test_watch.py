"""What a watch concludes from two reads of a node, and when it reads again."""

import asyncio

import pytest

from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.zookeeper.connection import ZooKeeperConnection
from mledger.metastore.zookeeper.watch import Watch, plan_changes
from tests.support.aio import run


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (None, None, []),
        ((1, 1), (1, 1), []),
        (None, (1, 1), [NodeChange.CREATED]),
        ((1, 1), None, [NodeChange.DELETED]),
        ((1, 1), (1, 2), [NodeChange.CHANGED]),
        ((1, 1), (3, 3), [NodeChange.DELETED, NodeChange.CREATED]),
    ],
)
def test_two_reads_of_a_node_tell_what_happened(before, after, changes):
    assert plan_changes(before, after, NodeChange.CHANGED) == changes


def test_a_watch_that_the_server_refuses_to_set_again_is_not_asked_for_at_once():
    async def main():
        asked = []

        async def throttled(request):
            asked.append(request)
            await asyncio.sleep(0)
            raise StoreUnavailable("/node was given up by the server", "/node")

        connection = ZooKeeperConnection("127.0.0.1:1", "zk://127.0.0.1:1", 10.0)
        watch = Watch(connection, "/node", children=False, read=throttled)
        connection.session.change(SessionState.CONNECTED)
        following = asyncio.ensure_future(anext(watch.changes()))
        for _ in range(100):
            await asyncio.sleep(0)
        following.cancel()
        assert len(asked) == 1

    run(main())
