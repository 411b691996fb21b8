"""A change that comes upon another owner of its topic leaves no undo file of what that one wrote."""

import asyncio
from dataclasses import replace

import pytest

import mledger as public
from mledger.cli.topics import deletion
from tests.support.aio import run
from tests.support.cli import mledger, ok
from tests.support.commands.meanwhile import meanwhile
from tests.support.topics import KEEP, fill

ONE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "truncate", "{}"),
        ("topics", "terminate", "{}"),
        ("topics", "delete", "{}"),
        ("cursors", "skip", "{}", "one", 1),
        ("cursors", "delete", "{}", "one"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_an_owner_that_came_meanwhile_wrote_is_not_for_undo(url, topic, undo_file, monkeypatch, words) -> None:
    ok("topics", "create", topic, url=url)
    ok("cursors", "create", topic, "one", url=url)
    ok("topics", "produce", topic, "--count", 3, url=url)
    check_unwritten = deletion.check_unwritten

    async def main():
        loop = asyncio.get_running_loop()
        async with public.open_cluster(url, config=ONE) as other:

            async def own() -> None:
                opened = await other.open_topic(topic)
                await fill(opened, 3)
                cursor = await opened.open_cursor("one")
                await cursor.clear_backlog()
                await cursor.flush()

            async def check(*arguments) -> None:
                await check_unwritten(*arguments)
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(own(), loop))

            if words[:2] == ("topics", "delete"):
                monkeypatch.setattr(deletion, "check_unwritten", check)
            else:
                meanwhile(monkeypatch, "act", lambda: asyncio.run_coroutine_threadsafe(own(), loop).result())
            change = (str(word).format(topic) for word in words)
            brief = ("--set", "metadataStoreSessionTimeoutMillis=1000")  # how long the command waits for the owner
            return await asyncio.to_thread(mledger, *change, "--yes", "--undo-file", undo_file, *brief, url=url)

    done = run(main())
    assert (done.code, "has an owner" in done.err) == (4, True), done
    assert not undo_file.exists()
