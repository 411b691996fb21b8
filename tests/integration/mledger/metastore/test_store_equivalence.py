"""Any sequence of operations gives the same results, and leaves the same tree, in memory, ZooKeeper and RocksDB."""

import asyncio
import itertools

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from mledger.metastore.errors import MetadataError
from mledger.metastore.store import ANY_VERSION, Check, Create, Delete, Put, SessionState
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run

PATHS = st.sampled_from(["/", "/a", "/b", "/a/a", "/a/b", "/a/b/a", "/b/a", "/a//b", "a"])
DATA = st.binary(max_size=2)
VERSIONS = st.sampled_from([ANY_VERSION, 0, 1, 2])
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, DATA, ephemeral=st.booleans(), sequential=st.booleans()),
    st.builds(Put, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
STEPS = st.lists(st.one_of(OPERATIONS, st.lists(OPERATIONS, max_size=5), PATHS), max_size=25)
numbers = itertools.count(1)
FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""Health checks that do not apply: examples share the server, and the machine may be busy."""


async def carry_out(store, step):
    match step:
        case list():
            return await store.multi(step)
        case Create(path, data, ephemeral, sequential):
            return await store.create(path, data, ephemeral=ephemeral, sequential=sequential, parents=path == "/a/b/a")
        case Put(path, data, version):
            return await store.put(path, data, version)
        case Delete(path, version):
            return await store.delete(path, version)
        case Check():
            return await store.multi([step])
        case path:
            stat = await store.exists(path)
            return stat and (stat.version, stat.num_children, await store.children(path))


async def story(store, steps):
    """The outcome of each step, then the tree, with session ids as yes or no."""
    outcomes = []
    for step in steps:
        try:
            outcomes.append(await carry_out(store, step))
        except MetadataError as error:
            outcomes.append((type(error), error.path))
    return outcomes, *await tree_of(store)


async def tree_of(store):
    paths = ["/"]
    for path in paths:
        paths += [f"{path.rstrip('/')}/{name}" for name in await store.children(path)]
    nodes = await store.get_many(paths)
    tree = [(path, node.data, node.version, node.stat.num_children) for path, node in zip(paths, nodes, strict=True)]
    owners = [node.stat.ephemeral_owner == store.session_id for node in nodes]
    return tree, owners


@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURES)
@given(STEPS)
def test_memory_and_zookeeper_give_the_same_results(metadata_url, steps):
    async def main():
        url = f"{metadata_url}/run-{next(numbers)}"
        async with await open_store(url, create_chroot=True) as zookeeper, await open_store("memory:") as memory:
            assert await story(zookeeper, steps) == await story(memory, steps)

    run(main())


@settings(max_examples=15, deadline=None, suppress_health_check=FIXTURES)
@given(STEPS)
def test_rocksdb_and_memory_give_the_same_results_and_a_restart_changes_nothing(rocksdb_thread, tmp_path, steps):
    directory = tmp_path / f"run-{next(numbers)}"
    server = rocksdb_thread.serve(directory)

    async def main():
        nonlocal server
        async with await open_store(server.url) as rocksdb, await open_store("memory:") as memory:
            assert await story(rocksdb, steps) == await story(memory, steps)
            await asyncio.to_thread(rocksdb_thread.stop, server)
            server = await asyncio.to_thread(rocksdb_thread.serve, directory)
            await rocksdb.wait_for_session(SessionState.CONNECTED, HANG_S)
            assert await tree_of(rocksdb) == await tree_of(memory)
            for path in ("/", "/a", "/b"):
                create = Create(f"{path.rstrip('/')}/n", sequential=True)
                assert await story(rocksdb, [create]) == await story(memory, [create])

    try:
        run(main())
    finally:
        rocksdb_thread.stop(server)
