"""The index is written again without the rows of deleted ledgers only where that is worth it."""

import os

from mledger.bookie import wire
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.collected_bookie import FILE, KEY, CollectedBookie
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

_FILES = {1: 1, 2: 3, 3: 1}
"""Journal files that each ledger fills."""


def test_a_freed_file_alone_does_not_have_the_whole_index_written_again(tmp_path, monkeypatch):
    async def main():
        async with (
            await open_store("memory:") as store,
            serving(tmp_path / "bookie", config=BookieConfig(journal_file_bytes=FILE)) as local,
        ):
            cluster = CollectedBookie(local, store, await initialize(store))
            await cluster.create(*_FILES)
            async with RawBookieClient(local) as client:
                for ledger, files in _FILES.items():
                    for number in range(16 * files + 1):
                        data = entry(ledger, number, os.urandom(FILE // 16 - 4096))
                        assert (await client.ask(wire.encode_add(KEY, data))).error == 0
            compacted = []
            monkeypatch.setattr(local.bookie.index, "compact", lambda: compacted.append(sorted(deleted)))
            deleted = []
            for ledger in (1, 2):
                await cluster.ledgers.delete(ledger)
                deleted += await cluster.collector.collect(store)
                assert await cluster.collector.reclaim() > 0
            return compacted

    assert run(main()) == [[1, 2]]


def test_a_collection_joins_the_index_s_many_small_files_where_there_is_room(tmp_path, monkeypatch):
    async def main():
        async with await open_store("memory:") as store, serving(tmp_path / "bookie") as local:
            collector = CollectedBookie(local, store, await initialize(store)).collector
            joined = []
            monkeypatch.setattr(local.bookie.index, "join_files", joined.append)
            for scattered, room in (([], True), (["entries"], False), (["entries"], True)):
                monkeypatch.setattr(local.bookie.index, "scattered", lambda found=scattered: found)
                monkeypatch.setattr(local.bookie, "may_compact", lambda _, room=room: room)
                await collector.reclaim()
            return joined

    assert run(main()) == [["entries"]]
