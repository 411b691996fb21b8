"""Reads that are shared by all who ask for them at once."""

import asyncio

import pytest

from mledger.bookie.client.connections.shared_read import SharedRead
from tests.support.aio import run


class Reads:
    """Reads that end when they are told to."""

    def __init__(self):
        self.answers = []
        self.shared = SharedRead(self.read)

    async def read(self):
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def ask(self, **options):
        asking = asyncio.ensure_future(self.shared.get(**options))
        for _ in range(3):
            await asyncio.sleep(0)
        return asking


def test_who_asks_meanwhile_shares_the_read_and_its_error():
    async def main():
        reads = Reads()
        asking = [await reads.ask() for _ in range(3)]
        (answer,) = reads.answers
        answer.set_exception(OSError("away"))
        for each in asking:
            with pytest.raises(OSError, match="away"):
                await each
        again = await reads.ask()
        reads.answers[1].set_result("found")
        assert await again == "found"

    run(main())


def test_a_fresh_read_does_not_join_one_that_began_before():
    async def main():
        reads = Reads()
        old, new = await reads.ask(), await reads.ask(fresh=True)
        joined = await reads.ask()
        reads.answers[0].set_result("old")
        reads.answers[1].set_result("new")
        assert (await old, await new, await joined) == ("old", "new", "new")

    run(main())


def test_fresh_reads_that_are_asked_for_at_once_are_one():
    async def main():
        reads = Reads()
        old = await reads.ask()
        asking = [asyncio.ensure_future(reads.shared.get(fresh=True)) for _ in range(1000)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(reads.answers) == 2
        for answer, found in zip(reads.answers, ("old", "new"), strict=True):
            answer.set_result(found)
        assert await old == "old"
        assert {await each for each in asking} == {"new"}

    run(main())


def test_who_gives_up_does_not_end_it_for_the_others():
    async def main():
        reads = Reads()
        one, other = await reads.ask(), await reads.ask()
        one.cancel()
        await asyncio.wait([one])
        reads.answers[0].set_result("found")
        assert await other == "found"

    run(main())
