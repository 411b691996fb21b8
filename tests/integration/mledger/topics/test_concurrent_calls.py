"""A topic appended to, acknowledged, reset, trimmed, rolled over and fenced from outside at once; then recounted."""

import asyncio
import random
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import NoSuchLedger
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import CONFIG, assert_nothing_orphaned, everything, fill, payloads, recount

SMALL_LEDGERS = replace(CONFIG, max_entries_per_ledger=50, metadata_max_entries_per_ledger=20)
BATCHES, WINDOW = 250, 5
CURSORS, ROUNDS = 5, 80
FENCES = 12


class TopicLoad:
    """What runs at once on one topic; `known` are the positions acknowledged to the writer, in order."""

    def __init__(self, topic: mledger.ManagedLedger, rng: random.Random) -> None:
        self.topic = topic
        self.rng = rng
        self.known: list[mledger.Position] = []
        self.appended = 0

    async def append(self) -> None:
        pending = []
        for _ in range(BATCHES):
            count = self.rng.randint(1, 30)
            pending.append(self.topic.append(payloads(count, self.appended)))
            self.appended += count
            if len(pending) > WINDOW:
                self._note(await pending.pop(0))
            await asyncio.sleep(0)
        for future in pending:
            self._note(await future)

    def _note(self, ranges) -> None:
        self.known += [position for where in ranges for position in where.positions()]

    async def use_cursor(self, name: str) -> None:
        cursor = await self.topic.open_cursor(name)
        for _ in range(ROUNDS):
            while not self.known:
                await asyncio.sleep(0)
            await self._step(cursor)

    async def _step(self, cursor: mledger.Cursor) -> None:
        rng = self.rng
        live = [position for position in self.known[-400:] if not cursor.is_deleted(position)]
        match rng.randrange(10):
            case 0:
                await cursor.reset(rng.choice(self.known[-300:]))
            case 1:
                await cursor.skip(rng.randint(0, 30))
            case 2:
                await cursor.read(rng.randint(1, 60))
            case 3:
                await cursor.set_cursor_properties({"round": str(rng.random())})
            case 4:
                await self.topic.trim()
            case 5 if live:
                await cursor.acknowledge_cumulative(rng.choice(live[:50]))
            case _ if live:
                acknowledged = cursor.acknowledge(rng.sample(live, min(len(live), rng.randint(1, 20))))
                if rng.random() < 0.5:
                    await acknowledged

    async def fence(self, other: BookKeeper) -> None:
        for _ in range(FENCES):
            cursor = self.rng.choice(list(self.topic.open_cursors.values()))
            for ledger_id in {self.topic.ledgers[-1].ledger_id, cursor.cursor_ledger} - {-1}:
                try:
                    await other.open_ledger(ledger_id)
                except NoSuchLedger:
                    continue  # switched and deleted meanwhile
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_repeated_or_miscounted(topic_url, topic, seed):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=SMALL_LEDGERS) as cluster,
            await open_store(topic_url) as store,
        ):
            opened = await cluster.create_topic(topic)
            names = [f"sub-{number}" for number in range(CURSORS)]
            for name in names:
                await opened.open_cursor(name)
            load, other = TopicLoad(opened, random.Random(seed)), BookKeeper(store)
            await asyncio.gather(load.append(), load.fence(other), *map(load.use_cursor, names))
            await other.close()

            assert opened.state is mledger.TopicState.OPEN
            assert len(load.known) == load.appended
            assert load.known == sorted(set(load.known))
            found = await everything(opened)
            assert found == payloads(load.appended)[load.appended - len(found) :]
            for cursor in opened.open_cursors.values():
                await cursor.flush()
                assert cursor.backlog == await recount(opened, cursor)
            before = {name: (cursor.backlog, cursor.holes) for name, cursor in opened.open_cursors.items()}
            await opened.abandon()

            again = await cluster.open_topic(topic)
            await again.initialized()
            after = {name: (cursor.backlog, cursor.holes) for name, cursor in again.open_cursors.items()}
            assert after == before
            name = again.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_cursor_is_reset_while_a_trim_deletes_ledgers(topic_url, topic, monkeypatch):
    begun, release, delete = asyncio.Event(), asyncio.Event(), LedgerFactory.delete

    async def held(factory, ledger_id):
        begun.set()
        await release.wait()
        await delete(factory, ledger_id)

    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, trim=False)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub", initial=positions[14])
            monkeypatch.setattr(LedgerFactory, "delete", held)
            trimming = asyncio.ensure_future(opened.trim())
            await begun.wait()
            await cursor.reset(positions[12])
            assert (cursor.backlog, trimming.done()) == (13, False)
            release.set()
            assert len((await trimming).deletions) == 1
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_topic_and_its_cursors_refuse_calls_from_another_thread_and_do_nothing(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            first = await opened.add(b"first")
            for call in (lambda: opened.append([b"other"]), lambda: cursor.acknowledge([first]), cursor.rewind):
                with pytest.raises(RuntimeError, match="run_coroutine_threadsafe"):
                    await asyncio.to_thread(call)
            assert (opened.last_confirmed, cursor.backlog) == (first, 1)

            def add() -> mledger.Position:
                return asyncio.run_coroutine_threadsafe(opened.add(b"second"), loop).result()

            loop = asyncio.get_running_loop()
            assert await asyncio.to_thread(add) == (first.ledger_id, 1)

    run(main())
