"""Background tasks of a topic: waited for, cancelled, and reported when they fail."""

import asyncio
import gc

import pytest

from mledger.ledgers import background
from mledger.ledgers.background import Background, outcome
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run


class Log:
    """Keeps warnings."""

    def __init__(self):
        self.warnings = []

    def warning(self, event, **fields):
        self.warnings.append((event, fields["topic"], fields["task"]))


@pytest.fixture
def log(monkeypatch):
    """The log of the module under test."""
    log = Log()
    monkeypatch.setattr(background, "log", log)
    return log


async def fail(error):
    raise error


def test_finish_waits_for_tasks_and_for_those_that_they_start():
    async def main():
        tasks, done = Background("topic"), []

        async def second():
            await asyncio.sleep(0)
            done.append("second")

        async def first():
            await asyncio.sleep(0)
            tasks.spawn(second(), "second")
            done.append("first")

        tasks.spawn(first(), "first")
        await tasks.finish()
        assert done == ["first", "second"]

    run(main())


def test_finish_cancels_endless_tasks_only():
    async def main():
        tasks, gate = Background("topic"), asyncio.Event()
        endless = tasks.spawn(asyncio.Event().wait(), "retry", endless=True)
        other = tasks.spawn(gate.wait(), "work")
        finishing = asyncio.ensure_future(tasks.finish())
        await asyncio.sleep(0)
        gate.set()
        await finishing
        assert (endless.cancelled(), other.cancelled(), other.result()) == (True, False, True)

    run(main())


def test_a_task_may_finish_the_others():
    async def main():
        tasks = Background("topic")
        await tasks.spawn(tasks.finish(), "close")

    run(main())


def test_cancel_ends_every_task():
    async def main():
        tasks = Background("topic")
        waiting = tasks.spawn(asyncio.Event().wait(), "work")
        await tasks.cancel()
        assert waiting.cancelled()

    run(main())


def test_an_expected_failure_is_logged_with_topic_and_task(log):
    async def main():
        tasks = Background("topic")
        tasks.spawn(fail(StoreUnavailable("no server")), "trim")
        await tasks.finish()

    run(main())
    assert log.warnings == [("task_failed", "topic", "trim")]


def test_any_other_failure_reaches_the_handler_of_the_loop(log):
    async def main():
        seen = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        tasks = Background("topic")
        tasks.spawn(fail(ZeroDivisionError()), "trim")
        await tasks.finish()
        await asyncio.sleep(0)
        return seen

    (context,) = run(main())
    assert (context["message"], log.warnings) == ("topic: trim failed", [])
    assert isinstance(context["exception"], ZeroDivisionError)


def test_finish_cancels_endless_tasks_that_begin_meanwhile():
    async def main():
        tasks, begin = Background("topic"), asyncio.Event()

        async def first():
            await begin.wait()
            tasks.spawn(asyncio.Event().wait(), "clean-up", endless=True)

        tasks.spawn(first(), "loading cursors")
        finishing = asyncio.ensure_future(tasks.finish())
        await asyncio.sleep(0)
        begin.set()
        await finishing

    run(main(), timeout=10)


@pytest.mark.parametrize(("error", "reported"), [(StoreUnavailable("away"), 0), (RuntimeError("a fault"), 1)])
def test_what_nobody_waits_for_any_more_is_reported_only_if_it_is_a_fault(error, reported):
    async def main():
        loop, reports, gate = asyncio.get_running_loop(), [], asyncio.Event()
        loop.set_exception_handler(lambda _, report: reports.append(report["exception"]))

        async def work():
            await gate.wait()
            raise error

        task = loop.create_task(work())
        waiter = loop.create_task(outcome(task, lambda: StoreUnavailable("stopped")))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        gate.set()
        await asyncio.wait([task])
        del task, waiter
        gc.collect()  # a task that is let go of reports what nobody has heard of
        assert reports == [error] * reported

    run(main())
