"""The memory store against a simple model, a dictionary."""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mledger.metastore.errors import BadVersion, NodeExists, NodeNotEmpty, NodeNotFound, SessionExpired
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.store import ANY_VERSION, Check, Create, Delete, Put, SessionState

PATHS = st.sampled_from(["/a", "/b", "/a/a", "/a/b", "/a/b/a", "/b/a"])
DATA = st.binary(max_size=2)
VERSIONS = st.sampled_from([ANY_VERSION, 0, 1, 2])
NUMBERS = iter(range(1_000_000))


def outcome(attempt):
    """The result of a call, or the class of its error."""
    try:
        return asyncio.run(attempt)
    except Exception as error:
        return type(error)


class StoreModel:
    """Path → (data, version, owner)."""

    def __init__(self):
        self.nodes = {"/": (b"", 0, None)}

    def children(self, path):
        prefix = path.rstrip("/") + "/"
        names = (other.removeprefix(prefix) for other in self.nodes if other != "/" and other.startswith(prefix))
        return sorted(name for name in names if "/" not in name)

    def create(self, path, data, owner=None):
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.nodes:
            return NodeNotFound
        if path in self.nodes:
            return NodeExists
        self.nodes[path] = (data, 0, owner)
        return path

    def check(self, path, version):
        if path not in self.nodes:
            return NodeNotFound
        return None if version in (ANY_VERSION, self.nodes[path][1]) else BadVersion

    def put(self, path, data, version):
        if error := self.check(path, version):
            return error
        _, old, owner = self.nodes[path]
        self.nodes[path] = (data, old + 1, owner)
        return old + 1

    def delete(self, path, version):
        if error := self.check(path, version):
            return error
        if self.children(path):
            return NodeNotEmpty
        del self.nodes[path]
        return None

    def multi(self, operations):
        before = dict(self.nodes)
        results = []
        for operation in operations:
            match operation:
                case Create(path, data):
                    result = self.create(path, data)
                case Put(path, data, version):
                    result = self.put(path, data, version)
                case Delete(path, version):
                    result = self.delete(path, version)
                case Check(path, version):
                    result = self.check(path, version)
            if isinstance(result, type):
                self.nodes = before
                return result
            results.append(result)
        return results


OPERATIONS = st.one_of(
    st.builds(Create, PATHS, DATA),
    st.builds(Put, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


class MemoryMachine(RuleBasedStateMachine):
    @initialize()
    def open(self):
        self.name = f"model-{next(NUMBERS)}"
        self.store = MemoryStore(self.name)
        self.model = StoreModel()

    @rule(path=PATHS, data=DATA)
    def create(self, path, data):
        assert outcome(self.store.create(path, data)) == self.model.create(path, data)

    @rule(data=DATA)
    def create_ephemeral(self, data):
        expected = self.model.create("/e", data, self.store.session_id)
        assert outcome(self.store.create("/e", data, ephemeral=True)) == expected

    @rule(path=PATHS, data=DATA, version=VERSIONS)
    def put(self, path, data, version):
        assert outcome(self.store.put(path, data, version)) == self.model.put(path, data, version)

    @rule(path=PATHS, version=VERSIONS)
    def delete(self, path, version):
        assert outcome(self.store.delete(path, version)) == self.model.delete(path, version)

    @rule(operations=st.lists(OPERATIONS, max_size=4))
    def multi(self, operations):
        assert outcome(self.store.multi(operations)) == self.model.multi(operations)

    @rule(how=st.sampled_from(["close", "expire"]))
    def end_the_session_and_open_another(self, how):
        if how == "close":
            asyncio.run(self.store.close())
        else:
            self.store.expire()
        self.model.nodes = {path: node for path, node in self.model.nodes.items() if node[2] is None}
        self.store = MemoryStore(self.name)

    @invariant()
    def the_trees_are_equal(self):
        if not hasattr(self, "store"):
            return
        paths = ["/", "/e", "/a", "/b", "/a/a", "/a/b", "/a/b/a", "/b/a"]
        nodes = asyncio.run(self.store.get_many(paths))
        for path, node in zip(paths, nodes, strict=True):
            if path not in self.model.nodes:
                assert node is None
                continue
            assert (node.data, node.version, node.stat.ephemeral_owner or None) == self.model.nodes[path]
            assert asyncio.run(self.store.children(path)) == self.model.children(path)
            assert node.stat.num_children == len(self.model.children(path))


MemoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestMemoryAgainstModel = MemoryMachine.TestCase


def test_an_expired_session_is_distinguished_from_a_closed_store():
    async def main():
        store = MemoryStore()
        async with store.watch("/node") as changes:
            store.expire()
            with pytest.raises(SessionExpired):
                await anext(changes)
        assert store.session_state is SessionState.EXPIRED
        with pytest.raises(SessionExpired):
            await store.get("/")
        await store.close()
        assert store.session_state is SessionState.EXPIRED

    asyncio.run(main())


def test_a_tree_is_shared_by_name_and_new_without_one():
    async def main():
        await MemoryStore("shared-tree").create("/node")
        assert await MemoryStore("shared-tree").children("/") == ["node"]
        await MemoryStore().create("/node")
        assert await MemoryStore().children("/") == []

    asyncio.run(main())
