"""A bookie that runs out of memory half way through a request ends: what it has in memory may be in no turn."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.serving import group_commit
from mledger.bookie.server.storage import journal_thread
from mledger.bookie.server.storage.records.journal_record import JournalTurn
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
FENCE = wire.encode_read(1, -1, wire.Flag.FENCE, KEY)
ADD = wire.encode_add(KEY, entry(1, 0, b"x"))


class ProcessEnded(BaseException):
    """The process would have ended."""


def no_memory(*_, **__):
    raise MemoryError


@pytest.mark.parametrize(
    ("request_", "place", "name"),
    [
        (FENCE, group_commit.GroupCommit, "_schedule"),
        (ADD, group_commit.GroupCommit, "_schedule"),
        (ADD, JournalTurn, "keep"),
        (ADD, JournalTurn, "answer"),
    ],
    ids=["a fence", "an add", "an add's frames", "an add's answer"],
)
def test_a_request_that_is_accepted_in_part_ends_the_process(tmp_path, monkeypatch, request_, place, name):
    async def main():
        ended = asyncio.get_running_loop().create_future()

        def end(event, error):
            if not ended.done():
                ended.set_result((event, type(error)))
            raise Exception("the process has ended")

        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            with monkeypatch.context() as patched:
                patched.setattr(group_commit, "end_process", end)
                patched.setattr(place, name, no_memory)
                client.send(request_)
                await client.closed()
            return ended.result() if ended.done() else "it went on"

    assert run(main()) == ("turn_failed", MemoryError)


def test_the_process_ends_even_if_there_is_no_memory_to_say_why(monkeypatch):
    def end(code):
        raise ProcessEnded(code)

    monkeypatch.setattr(journal_thread.os, "_exit", end)
    monkeypatch.setattr(journal_thread, "log", SimpleNamespace(critical=no_memory))
    with pytest.raises(ProcessEnded, match=str(journal_thread.EXIT_STORAGE_FAILED)):
        journal_thread.end_process("turn_failed", MemoryError())
