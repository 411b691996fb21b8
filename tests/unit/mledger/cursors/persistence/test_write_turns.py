"""Many writes that begin at once leave turns of the loop to others."""

import asyncio

import pytest

from mledger.cursors.persistence.write_turns import BEGUN_A_TURN, WriteTurns
from tests.support.aio import run

MANY = 5 * BEGUN_A_TURN


async def begin(turns: WriteTurns, number: int, begun: list[int]) -> None:
    await turns.next()
    begun.append(number)


def test_few_writes_begin_in_the_turn_in_which_they_ask():
    async def main():
        turns, begun = WriteTurns(), []
        for number in range(BEGUN_A_TURN):
            await begin(turns, number, begun)
        return begun

    assert run(main()) == list(range(BEGUN_A_TURN))


def test_no_more_than_a_few_begin_in_one_turn_and_in_the_order_of_asking():
    async def main():
        turns, begun = WriteTurns(), []
        tasks = [asyncio.create_task(begin(turns, number, begun)) for number in range(MANY)]
        most, before = 0, 0
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            most, before = max(most, len(begun) - before), len(begun)
        assert most == BEGUN_A_TURN
        assert begun == list(range(MANY))

    run(main())


def test_writes_that_are_cancelled_take_no_turn():
    async def main():
        turns, begun = WriteTurns(), []
        tasks = [asyncio.create_task(begin(turns, number, begun)) for number in range(MANY)]
        await asyncio.sleep(0)
        for task in tasks[BEGUN_A_TURN:-1]:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[BEGUN_A_TURN]
        await tasks[-1]
        return begun

    assert run(main()) == [*range(BEGUN_A_TURN), MANY - 1]
