"""A bookie process whose index cannot be written out."""

import asyncio
import threading

from mledger.bookie.server.process import main as process
from mledger.bookie.server.process.options import parse_options
from mledger.bookie.server.storage.rows.index import Index
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run


def test_a_bookie_whose_index_s_disk_hangs_is_read_only_until_it_is_flushed(tmp_path, cluster_url, monkeypatch, caplog):
    go_on, flush = threading.Event(), Index.flush

    def flush_late(index):
        go_on.wait(HANG_S)
        flush(index)

    async def listed_as(store, read_only):
        while [each.read_only for each in await list_bookies(store)] != [read_only]:
            await asyncio.sleep(0.02)

    async def main():
        for limit in ("HUNG_S", "HUNG_FLUSH_S"):
            monkeypatch.setattr(process, limit, 0.1)
        options = parse_options(
            ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--set", "diskCheckInterval=100"]
        )
        bookie = process.BookieProcess(options)
        serving = asyncio.ensure_future(bookie.run())
        async with await open_store(cluster_url) as store:
            await listed_as(store, False)
            monkeypatch.setattr(Index, "flush", flush_late)
            bookie._bookie.turns.flushes.start()
            await listed_as(store, True)
            go_on.set()
            await listed_as(store, False)
        bookie.stop()
        await serving

    run(main())
    assert "the index's disk hangs" in caplog.text
