"""A standalone whose program is cancelled while it starts or ends leaves nothing behind."""

import asyncio
import os
import types

import pytest

import mledger
from tests.support.aio import run


class CancelledProgram:
    """A program that is cancelled at its own await number `at`, and then at each later one if it is `persistently`."""

    def __init__(self, at, *, persistently=False):
        self.at, self.persistently, self.awaits = at, persistently, 0

    @types.coroutine
    def run(self, program):
        """Drive the program, as the event loop does."""
        step = program.send, None
        while True:
            try:
                awaited = step[0](step[1])
            except StopIteration:
                return
            self.awaits += 1
            if self.awaits == self.at or (self.persistently and self.awaits > self.at):
                asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
            try:
                step = program.send, (yield awaited)
            except BaseException as error:
                step = program.throw, error


def open_files():
    """The files and sockets of this process."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the directory's own
            continue
    return found


async def use(directory):
    """Start a standalone and end it."""
    async with mledger.start_standalone(directory):
        pass


async def cancelled(directory, program):
    """Run the program to its end; whether it was cancelled."""

    async def driven():
        await program.run(use(directory))

    task = asyncio.create_task(driven())
    await asyncio.wait([task])
    return task.cancelled()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")
@pytest.mark.parametrize("persistently", [False, True])
def test_a_cancellation_at_any_await_leaves_no_task_file_or_lock(tmp_path, persistently):
    async def main():
        await use(tmp_path)  # what the process opens once
        files, tasks = open_files(), asyncio.all_tasks()
        at = 1
        while await cancelled(tmp_path, CancelledProgram(at, persistently=persistently)):
            assert (at, asyncio.all_tasks() - tasks) == (at, set())
            assert (at, set(open_files().values()) - set(files.values())) == (at, set())
            at += 1
        await use(tmp_path)
        return at

    assert run(main()) > 5  # it went through the start and the end
