"""What is asked of a live store: which folders are listed, and how many nodes one request names."""

from collections import Counter

from mledger.metastore.memory.store import MemoryStore
from mledger.snapshot.source.live_nodes import BYTES_AT_ONCE, NODES_AT_ONCE, LiveNodes, next_step, nodes_at_once
from mledger.snapshot.source.splits import LedgerShare, TopicShare
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.scope import TopicScope
from tests.support.aio import run

PATHS = [
    *(f"/managed-ledgers/t/{name}/persistent/{number}" for name in ("a", "b") for number in range(5)),
    "/managed-ledgers/t/a/persistent/1/cursor",
    "/managed-ledgers/t/empty/persistent",
    "/ledgers/00/0000/L0001",
    "/ledgers/00/0001/L0002",
    "/ledgers/000/0000/0000/0001/L0003",
]
HOLDERS = ("/managed-ledgers/t/a/persistent", "/managed-ledgers/t/b/persistent", "/ledgers/00/0000", "/ledgers/00/0001")


class CountingStore(MemoryStore):
    """Counts how often each folder is listed."""

    listed: Counter[str]

    async def children_many(self, paths):
        self.listed.update(paths)
        return await super().children_many(paths)


async def written_store():
    store = CountingStore()
    store.listed = Counter()
    made = set()
    for path in PATHS:
        parts = path.split("/")
        for depth in range(2, len(parts) + 1):
            if (each := "/".join(parts[:depth])) not in made:
                made.add(each)
                await store.create(each)
    return store


def test_planning_lists_no_folder_of_topics_or_ledgers_and_reading_lists_each_once():
    async def main():
        store = await written_store()
        nodes = LiveNodes(store, TopicScope(), "/ledgers")
        shares = await nodes.plan(frozenset({NodeKind.TOPIC, NodeKind.CURSOR, NodeKind.LEDGER}), 2, None)
        assert [folder for folder in HOLDERS if store.listed[folder]] == []
        found = []
        for share in shares:
            if isinstance(share, TopicShare):
                lists = nodes.topics(share, topics=True, cursors=True)
            else:
                assert isinstance(share, LedgerShare)
                lists = nodes.ledgers(share)
            found += [node.path async for some in lists for _, node in some]
        assert sorted(found) == sorted(set(PATHS) - {"/managed-ledgers/t/empty/persistent"})
        assert [store.listed[folder] for folder in HOLDERS] == [1, 1, 1, 1]
        # topics without cursors are not listed
        topics = [path for path in store.listed if "/persistent/" in path]
        assert topics == ["/managed-ledgers/t/a/persistent/1"]

    run(main())


def test_a_scope_of_one_topic_is_one_share():
    async def main():
        scope = TopicScope(topics=frozenset({"persistent://t/a/1"}), namespaces=frozenset({"t/a"}))
        nodes = LiveNodes(await written_store(), scope, "/ledgers")
        (share,) = await nodes.plan(frozenset({NodeKind.TOPIC}), None, None, cores=8)
        found = [node.path async for some in nodes.topics(share, topics=True, cursors=False) for _, node in some]
        assert found == ["/managed-ledgers/t/a/persistent/1"]

    run(main())


def test_requests_are_small_if_a_rate_is_given():
    assert nodes_at_once(100.0) == 2
    assert nodes_at_once(None) == NODES_AT_ONCE
    assert nodes_at_once(1e9, 20) == 20


def test_requests_grow_and_shrink_with_the_sizes_of_nodes():
    def some(count, size):
        return [(NodeKind.CURSOR, FoundNode("/c", bytes(size), 0, 0, 0, 0))] * count

    assert next_step([]) == NODES_AT_ONCE
    assert next_step(some(256, 100)) == NODES_AT_ONCE
    assert next_step(some(256, 1 << 20)) == BYTES_AT_ONCE >> 20
    assert next_step(some(1, BYTES_AT_ONCE * 2)) == 1
