"""An event loop that is closed while the bookie's journal syncs."""

import asyncio
import threading

from mledger.bookie import request_frames, wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.storage import journal_thread
from mledger.bookie.server.storage.directories.directory import BookieDirectory, new_format
from tests.support.aio import run
from tests.support.bookies.absent_client import AbsentClient
from tests.support.bookies.local_bookie import SMALL, serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")


def test_a_turn_synced_after_its_loop_was_closed_ends_nothing_and_is_found_at_the_next_start(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(journal_thread, "end_process", lambda event, error: ended.append((event, error)))
    directory = BookieDirectory(str(tmp_path / "bookie"))
    directory.begin(new_format("bookie", "instance"))
    go_on, thread = threading.Event(), []

    async def leave_while_it_syncs():
        bookie = ServingBookie(directory, SMALL, None)
        append = bookie._journal.append

        def held(*arguments):
            go_on.wait()
            return append(*arguments)

        bookie._journal.append = held
        buffer = bytearray(wire.encode_add(KEY, entry(1, 0, b"payload")))
        for adds in request_frames.scan(buffer, 0, len(buffer)).requests:
            bookie.turns.add(AbsentClient(), buffer, adds)
        while not bookie.turns.busy:
            await asyncio.sleep(0)
        thread.extend(each for each in threading.enumerate() if each.name == "journal")
        return bookie

    bookie = asyncio.run(leave_while_it_syncs())
    go_on.set()
    for each in thread:
        each.stop()
    assert ended == []
    bookie.index.close()
    directory.unlock()

    async def read():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            return (await client.ask(wire.encode_read(1, 0))).body

    assert b"payload" in bytes(run(read()))
