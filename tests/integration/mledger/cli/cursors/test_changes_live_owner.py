"""`mledger cursors clear --take-over` beside a live owner: it acknowledges what its plan counts, and nothing more."""

import asyncio
from dataclasses import replace

import mledger as public
from mledger.cli.cursors import changes
from tests.support.aio import run
from tests.support.cli import answer
from tests.support.topics import CONFIG, fill, payloads

SINGLE = replace(CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def test_what_a_live_owner_appends_after_the_plan_stays_unacknowledged(url, topic, undo_file, monkeypatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with public.open_cluster(url, config=SINGLE) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("one")
            await fill(opened, 5)
            open_topic = changes.opened_topic

            def opened_later(*arguments, **named):
                asyncio.run_coroutine_threadsafe(fill(opened, 3, 5), loop).result()
                return open_topic(*arguments, **named)

            monkeypatch.setattr(changes, "opened_topic", opened_later)
            words = ("cursors", "clear", topic, "one", "--take-over", "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(answer, *words, url=url)
            await opened.abandon()
        async with public.open_cluster(url, config=SINGLE) as cluster:
            cursor = await (await cluster.open_topic(topic)).open_cursor("one", create=False)
            assert [entry.payload for entry in await cursor.read(100)] == payloads(3, 5)

    run(main())
