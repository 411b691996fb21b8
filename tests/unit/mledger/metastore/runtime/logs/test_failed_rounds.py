"""A round that fails is told of, and its loop goes on; a loop that is cancelled ends."""

import asyncio
import logging

import pytest

from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from tests.support.aio import run

log = get_logger("mledger.test")


def cancelled_elsewhere():
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


def test_a_failed_round_is_told_of_and_the_next_one_comes():
    async def main():
        told, errors = [], [KeyError("x"), StoreUnavailable("away")]
        for error in errors:
            with OutlivedRound(told.append):
                raise error
        with OutlivedRound(told.append):
            await cancelled_elsewhere()
        with OutlivedRound(told.append):
            pass
        assert told[:2] == errors
        assert [type(each) for each in told[2:]] == [asyncio.CancelledError]

    run(main())


def test_a_cancelled_loop_ends():
    async def main():
        told = []

        async def loop():
            while True:
                with OutlivedRound(told.append):
                    await asyncio.sleep(3600)

        task = asyncio.create_task(loop())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert (task.cancelled(), told) == (True, [])

    run(main())


@pytest.mark.parametrize(
    ("error", "level", "traceback"),
    [(StoreUnavailable("away"), logging.WARNING, False), (KeyError("x"), logging.ERROR, True)],
)
def test_an_error_that_is_not_mledgers_own_is_logged_with_its_traceback(caplog, error, level, traceback):
    with OutlivedRound(lambda error: log_failure(log, "failed", error, number=1)):
        raise error
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None, record.msg["number"]) == (level, traceback, 1)
