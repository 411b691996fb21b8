"""Servers that accept larger requests than ZooKeeper by default: the limit is configured, or learned from a node."""

import pytest

from mledger.metastore.errors import InvalidMetadataUrl, NodeTooLarge
from mledger.metastore.url import open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import run
from tests.support.zookeeper.server import SETTINGS

LIMIT = 4_000_000
LARGE = bytes(2_000_000)


@pytest.fixture(scope="module")
def raised(tmp_path_factory):
    """A server that accepts requests of four million bytes."""
    directory = tmp_path_factory.mktemp("raised")
    options = (f"-Djute.maxbuffer={LIMIT}",)
    with ZooKeeperServer.start(directory, sync=False, settings=SETTINGS, java_options=options) as server:
        yield server


def configured(tmp_path, line):
    file = tmp_path / "zookeeper.conf"
    file.write_text(line)
    return file


def test_a_configured_limit_is_respected(raised, tmp_path):
    async def main():
        file = configured(tmp_path, f"jute.maxbuffer = {LIMIT}\n")
        async with await open_store(f"{raised.url}?config={file}") as store:
            await store.create("/said", LARGE)
            assert len((await store.get("/said")).data) == len(LARGE)
            with pytest.raises(NodeTooLarge, match=str(LIMIT)):
                await store.put("/said", bytes(LIMIT), 0)

    run(main())


def test_a_larger_limit_is_learned_from_a_node_that_only_it_allows(raised, tmp_path):
    async def main():
        file = configured(tmp_path, f"jute.maxbuffer = {LIMIT}\n")
        async with (
            await open_store(f"{raised.url}?config={file}") as writer,
            await open_store(raised.url) as store,
        ):
            await writer.create("/learned", LARGE)
            with pytest.raises(NodeTooLarge, match=r"jute\.maxbuffer"):
                await store.put("/learned", LARGE, 0)
            await store.get_many(["/learned"])
            assert await store.put("/learned", LARGE, 0) == 1

    run(main())


@pytest.mark.parametrize("value", ["much", "-1", "100"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(raised, tmp_path, value):
    async def main():
        with pytest.raises(InvalidMetadataUrl, match=r"jute\.maxbuffer"):
            await open_store(f"{raised.url}?config={configured(tmp_path, f'jute.maxbuffer = {value}')}")

    run(main())
