"""Lookups have turns: some of a connection at once, and of all no more than may wait."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.broker.connections.lookup_turns import AT_ONCE, LookupTurns
from mledger.broker.refusals import BrokerRefusal
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run


def broker_of(most):
    return SimpleNamespace(settings=SimpleNamespace(lookups_at_once=most), pending_lookups=0)


async def begun(turns, count, end):
    """So many lookups, which go on until `end`; those that have a turn."""
    inside = []

    async def look(number):
        async with turns.turn():
            inside.append(number)
            await end.wait()

    tasks = [asyncio.ensure_future(look(number)) for number in range(count)]
    await asyncio.sleep(0)
    return inside, tasks


def test_a_connection_has_some_at_once_and_the_others_follow():
    async def main():
        broker, end = broker_of(0), asyncio.Event()
        inside, tasks = await begun(LookupTurns(broker), 3 * AT_ONCE, end)
        assert (len(inside), broker.pending_lookups) == (AT_ONCE, 3 * AT_ONCE)
        other, more = await begun(LookupTurns(broker), 1, end)
        assert other == [0]
        end.set()
        await asyncio.gather(*tasks, *more)
        assert (inside, broker.pending_lookups) == (list(range(3 * AT_ONCE)), 0)

    run(main())


def test_more_than_may_wait_are_refused():
    async def main():
        broker, end = broker_of(2), asyncio.Event()
        turns = LookupTurns(broker)
        _, tasks = await begun(turns, 2, end)
        with pytest.raises(BrokerRefusal, match="maxConcurrentLookupRequest") as refused:
            async with turns.turn():
                pass
        assert (refused.value.code, broker.pending_lookups) == (pb.TooManyRequests, 2)
        end.set()
        await asyncio.gather(*tasks)
        async with turns.turn():
            assert broker.pending_lookups == 1

    run(main())


def test_of_a_connection_that_is_gone_none_waits():
    async def main():
        broker = broker_of(0)
        _, tasks = await begun(LookupTurns(broker), AT_ONCE + 1, asyncio.Event())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert broker.pending_lookups == 0

    run(main())
