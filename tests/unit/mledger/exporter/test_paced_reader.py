"""A paced reader asks for what it is asked for, a few nodes at a time."""

from mledger.exporter.paced_reader import PacedReader
from mledger.metastore.memory.store import MemoryStore
from tests.support.aio import run


class CountedStore(MemoryStore):
    """Remembers how many nodes were asked for at once."""

    def __init__(self):
        super().__init__("")
        self.sizes = []

    async def get_many(self, paths):
        """As the store's own."""
        self.sizes.append(len(paths))
        return await super().get_many(paths)


def test_many_nodes_are_read_in_steps_and_counted():
    async def main():
        store = CountedStore()
        paths = [f"/n{number}" for number in range(25)]
        for path in paths[:-1]:
            await store.create(path, path.encode())
        reader = PacedReader(store, 500)
        nodes = await reader.get_many(paths)
        assert [node and node.data for node in nodes] == [*(path.encode() for path in paths[:-1]), None]
        assert store.sizes == [10, 10, 5]
        assert await reader.children_many(["/n1", "/none"]) == [[], None]
        assert reader.requested == 27

    run(main())


def test_a_low_rate_still_reads_a_node_at_a_time():
    async def main():
        store = CountedStore()
        reader = PacedReader(store, 40)
        assert await reader.get_many(["/a", "/b"]) == [None, None]
        assert store.sizes == [1, 1]

    run(main())
