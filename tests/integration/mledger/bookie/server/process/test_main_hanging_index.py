"""A bookie process whose index has no room for more rows."""

import asyncio

import pytest

from mledger.bookie.server.process import main as process
from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.process.options import parse_options
from mledger.bookie.server.storage.directories.disk import FREE_MIB, Disk, DiskLimits
from mledger.bookie.server.storage.rows.index import Index
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.registrations import listed_as


def test_a_bookie_whose_index_s_disk_hangs_is_read_only_until_there_is_room(tmp_path, cluster_url, monkeypatch, caplog):
    async def main():
        monkeypatch.setattr(process, "HUNG_S", 0.1)
        options = parse_options(
            ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--set", "diskCheckInterval=100"]
        )
        bookie = process.BookieProcess(options)
        serving = asyncio.ensure_future(bookie.run())
        async with await open_store(cluster_url) as store:
            await listed_as(store, False)
            with monkeypatch.context() as patch:
                patch.setattr(Index, "crowded", property(lambda _: True))
                bookie._bookie.turns.fence(bookie._bookie.turns.ledgers.get(1), b"k" * 20)
                await listed_as(store, True)
            await listed_as(store, False)
        bookie.stop()
        await serving

    run(main())
    assert "the index's disk hangs" in caplog.text


@pytest.mark.parametrize("stop_when_full", [False, True])
def test_a_bookie_that_hung_is_writable_again_with_less_room_than_one_that_was_full(
    tmp_path, cluster_url, monkeypatch, stop_when_full
):
    left, limits = Disk(1 << 40, 3 * FREE_MIB // 2 << 20), DiskLimits(stop_when_full=stop_when_full)

    async def main():
        options = parse_options(["--metadata", cluster_url, "--dir", str(tmp_path / "bookie")])
        bookie, served = process.BookieProcess(options), asyncio.Event()
        serving = asyncio.ensure_future(bookie.serve(lambda _: served.set()))
        await served.wait()
        turns, paths = bookie._bookie.turns, [str(tmp_path)]
        monkeypatch.setattr(ServingBookie, "disk_left", lambda *_: left)
        with monkeypatch.context() as patch:
            patch.setattr(process, "HUNG_S", -1.0)
            bookie._look_at_disk(paths, limits)
            assert turns.read_only
        bookie._look_at_disk(paths, limits)
        assert not turns.read_only
        bookie.stop()
        await serving

    run(main())
