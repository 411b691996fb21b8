"""What is looked at by the clock goes on after any failure, and counts those that are not mledger's own errors."""

import asyncio
import logging

import pytest

from mledger.broker.periodic_check import PeriodicCheck
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run


async def cancelled_itself() -> None:
    inner = asyncio.get_running_loop().create_future()
    inner.cancel()
    await inner


async def looks(*outcomes) -> PeriodicCheck:
    """A check whose looks have had these outcomes, one after another: a coroutine function, or an error."""
    left, done = iter(outcomes), asyncio.Event()

    async def look(_: float) -> None:
        outcome = next(left, None)
        if outcome is None:
            done.set()
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            await outcome()

    check = PeriodicCheck("looks", lambda: 0, look)
    check.start()
    await done.wait()
    check.stop()
    return check


@pytest.mark.parametrize(
    ("outcome", "failures", "level"),
    [
        (KeyError("x"), 1, logging.ERROR),
        (cancelled_itself, 1, logging.ERROR),
        (StoreUnavailable("away"), 0, logging.WARNING),
    ],
)
def test_the_next_look_comes_after_a_failure(caplog, outcome, failures, level):
    assert run(looks(outcome, outcome)).failures == 2 * failures
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [(level, bool(failures))] * 2
    assert {record.msg["event"] for record in caplog.records} == {"check_failed"}


def test_a_failed_part_is_logged_with_its_fields_and_leaves_the_others_to_be_done(caplog):
    async def main():
        check = PeriodicCheck("parts", lambda: 0, lambda _: asyncio.sleep(0))
        done = []

        async def part(number):
            done.append(1 // number)

        for number in (1, 0, 1):
            await check.attempt("part_failed", part(number), number=number)
        return done, check.failures

    assert run(main()) == ([1, 1], 1)
    assert [(record.msg["event"], record.msg["number"]) for record in caplog.records] == [("part_failed", 0)]


def test_a_stopped_check_ends():
    async def main():
        began = asyncio.Event()

        async def look(_: float) -> None:
            began.set()
            await asyncio.get_running_loop().create_future()

        check = PeriodicCheck("forever", lambda: 0, look)
        check.start()
        await began.wait()
        check.stop()
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait([task])
        return task.cancelled(), check.failures

    assert run(main()) == (True, 0)
