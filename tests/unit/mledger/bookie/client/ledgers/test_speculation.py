"""Bookies asked in turn; the test gives the answers."""

import asyncio

import pytest

from mledger.bookie.client.ledgers.speculation import SpeculativeRead
from tests.support.aio import run

SOON, NEVER = 0.01, 3600.0


class Asked:
    """Futures by bookie, created when it is asked."""

    def __init__(self, bookies="abc", after_s=NEVER):
        self.answers, self.slow = {}, []
        self.reading = SpeculativeRead(list(bookies), self.ask, after_s, lambda bookie, _: self.slow.append(bookie))

    def ask(self, bookie):
        self.answers[bookie] = asyncio.get_running_loop().create_future()
        return self.answers[bookie]

    async def until_asked(self, bookie):
        while bookie not in self.answers:
            await asyncio.sleep(0)


def test_one_bookie_is_asked_while_it_answers_in_time():
    async def main():
        asked = Asked()
        waiting = asyncio.create_task(asked.reading.next())
        await asked.until_asked("a")
        asked.answers["a"].set_result("entry")
        bookie, answer = await waiting
        assert (bookie, answer.result()) == ("a", "entry")
        assert list(asked.answers) == ["a"]
        assert not asked.slow

    run(main())


def test_the_next_bookie_is_asked_beside_a_slow_one_and_the_first_answer_counts():
    async def main():
        asked = Asked("ab", SOON)
        waiting = asyncio.create_task(asked.reading.next())
        await asked.until_asked("b")
        asked.answers["a"].set_result("late, and still the first")
        assert (await waiting)[0] == "a"
        assert asked.slow == ["a"]
        asked.reading.close()
        assert asked.answers["b"].cancelled()

    run(main())


def test_an_error_is_an_answer_and_the_next_bookie_is_asked_at_once():
    async def main():
        asked = Asked("ab")
        waiting = asyncio.create_task(asked.reading.next())
        await asked.until_asked("a")
        asked.answers["a"].set_exception(OSError("away"))
        _, answer = await waiting
        with pytest.raises(OSError, match="away"):
            answer.result()
        waiting = asyncio.create_task(asked.reading.next())
        await asked.until_asked("b")
        asked.answers["b"].set_result("entry")
        assert (await waiting)[0] == "b"
        assert await asked.reading.next() is None

    run(main())


def test_the_last_bookie_has_as_long_as_it_takes():
    async def main():
        asked = Asked("a", SOON)
        waiting = asyncio.create_task(asked.reading.next())
        await asyncio.wait([waiting], timeout=10 * SOON)
        assert not waiting.done()
        asked.answers["a"].set_result("entry")
        assert (await waiting)[0] == "a"
        assert not asked.slow

    run(main())
