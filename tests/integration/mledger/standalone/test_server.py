"""A standalone on a loop of a program: what it starts ends with it, also when something goes wrong."""

import asyncio
import os
import socket

import psutil
import pytest

import mledger
from mledger.bookie.errors import DiskFull
from mledger.bookie.server.process import main as bookie_process
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.network import listening_port
from mledger.metastore.runtime.network.listening_port import PortUnavailable
from mledger.metastore.runtime.network.port_ranges import ports_to_try
from mledger.metastore.url import open_store
from mledger.standalone.errors import StandaloneError
from mledger.standalone.options import StandaloneOptions
from mledger.standalone.server import open_standalone
from tests.support.aio import run


def options(path, **others):
    return StandaloneOptions(str(path), port=0, http_port=0, **others)


def test_topics_are_opened_beside_it_on_the_same_loop(tmp_path):
    async def main():
        async with open_standalone(options(tmp_path, bookies=2)) as server:
            async with await open_store(server.addresses.metadata_url) as store:
                assert len(await list_bookies(store)) == 2
            async with mledger.open_cluster(server.addresses.metadata_url) as cluster:
                topic = await cluster.open_topic("orders", create=True)
                cursor = await topic.open_cursor("billing")
                await topic.append([b"0"])
                assert [entry.payload for entry in await cursor.read(1)] == [b"0"]
        return {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}

    assert run(main()) == set()


def test_data_that_was_moved_serves_at_its_new_place_and_at_another_port(tmp_path):
    async def publish(metadata_url):
        async with mledger.open_cluster(metadata_url) as cluster:
            topic = await cluster.open_topic("orders", create=True)
            cursor = await topic.open_cursor("billing")
            await topic.append([b"0", b"1", b"2"])
            await cursor.acknowledge([(await cursor.read(1))[0].position])

    async def unread(metadata_url):
        async with mledger.open_cluster(metadata_url) as cluster:
            topic = await cluster.open_topic("orders")
            await topic.append([b"new"])
            cursor = await topic.open_cursor("billing", create=False)
            return [entry.payload for entry in await cursor.read(10)]

    async def main():
        async with open_standalone(options(tmp_path / "old", bookies=2)) as server:
            await publish(server.addresses.metadata_url)
            async with await open_store(server.addresses.metadata_url) as store:
                bookie = (await list_bookies(store))[0]
        os.rename(tmp_path / "old", tmp_path / "new")
        with socket.create_server(("127.0.0.1", bookie.port)):
            with pytest.raises(MledgerError, match="give --moved"):
                async with open_standalone(options(tmp_path / "new")):
                    pass
            async with open_standalone(options(tmp_path / "new", moved=True)) as server:
                there = await unread(server.addresses.metadata_url)
        async with open_standalone(options(tmp_path / "new")) as server:  # it knows its new place now
            return there, await unread(server.addresses.metadata_url)

    assert run(main()) == ([b"1", b"2", b"new"], [b"1", b"2", b"new", b"new"])


def connected_to(port):
    """The connections of this process that were made to a port of it."""
    return [each for each in psutil.Process().net_connections() if each.raddr and each.raddr.port == port]


def test_only_clients_of_another_loop_need_the_bookies_port(tmp_path):
    async def produce(metadata_url, name, port):
        async with mledger.open_cluster(metadata_url) as cluster:
            topic = await cluster.open_topic(name, create=True)
            await topic.append([b"0"])
            return len(connected_to(port))

    async def main():
        async with open_standalone(options(tmp_path, bookies=2)) as server:
            url = server.addresses.metadata_url
            async with await open_store(url) as store:
                port = (await list_bookies(store))[0].port
            here = await produce(url, "here", port)
            elsewhere = await asyncio.to_thread(run, produce(url, "elsewhere", port))
        return here, elsewhere

    here, elsewhere = run(main())
    assert here == 0
    assert elsewhere > 0


def test_free_ports_are_not_those_to_which_its_bookies_come_back(tmp_path, monkeypatch):
    async def bookie_port():
        async with (
            open_standalone(options(tmp_path)) as server,
            await open_store(server.addresses.metadata_url) as store,
        ):
            return (await list_bookies(store))[0].port

    port = run(bookie_port())
    monkeypatch.setattr(listening_port, "ports_to_try", lambda: [port, *ports_to_try()])
    assert run(bookie_port()) == port


def test_it_starts_again_on_the_same_loop(tmp_path):
    async def main():
        found = []
        for _ in range(2):
            async with open_standalone(options(tmp_path)) as server:
                found.append(server.addresses.metadata_url)
        return found

    first, second = run(main())
    assert first == second


def test_what_was_started_ends_if_a_part_cannot_start(tmp_path):
    async def main():
        async with open_standalone(options(tmp_path / "one")) as server:
            port = int(server.addresses.service_url.rpartition(":")[2])
            with pytest.raises(PortUnavailable):
                async with open_standalone(StandaloneOptions(str(tmp_path / "other"), port=port, http_port=0)):
                    pass
            async with open_standalone(options(tmp_path / "other")):
                pass

    run(main())


def test_a_cancelled_start_leaves_the_directory_to_others(tmp_path, monkeypatch):
    async def main():
        starting = asyncio.Event()

        async def never(self):
            starting.set()
            await self._stopped_within(600)
            return False

        with monkeypatch.context() as patch:
            patch.setattr(bookie_process.BookieProcess, "_wait_for_address", never)
            opening = asyncio.create_task(open_standalone(options(tmp_path)).__aenter__())
            await starting.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        async with open_standalone(options(tmp_path)):
            pass

    run(main())


def test_an_error_of_a_bookie_ends_the_wait_and_names_the_error(tmp_path, monkeypatch):
    async def main():
        async with open_standalone(options(tmp_path)) as server:
            waiting = asyncio.create_task(server.wait())
            broken.set()
            with pytest.raises(DiskFull, match="no room"):
                await waiting

    async def watch(self, paths, limits):
        await broken.wait()
        raise DiskFull("no room")

    broken = asyncio.Event()
    monkeypatch.setattr(bookie_process.BookieProcess, "_watch_disk", watch)
    run(main())


def test_wrong_options_change_nothing(tmp_path):
    async def main():
        with pytest.raises(mledger.MledgerError, match="--bookies 99"):
            async with open_standalone(options(tmp_path / "data", bookies=99)):
                pass
        with pytest.raises(StandaloneError, match="runs a standalone"):
            async with open_standalone(options(tmp_path / "one")), open_standalone(options(tmp_path / "one")):
                pass

    run(main())
    assert os.listdir(tmp_path) == ["one"]


def test_metadata_of_a_temporary_directory_is_in_memory(tmp_path):
    async def main():
        async with open_standalone(StandaloneOptions("", port=0, http_port=0)) as server:
            metadata = server.addresses.metadata_url.removeprefix("rocksdb:")
            return sorted(os.listdir(metadata)), server.addresses.data_dir

    held, directory = run(main())
    assert "store" not in held
    assert not os.path.exists(directory)
