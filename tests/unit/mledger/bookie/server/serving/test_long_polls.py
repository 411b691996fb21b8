"""Reads that wait for the last add confirmed: woken by it or by time-out, limited, dropped with their client."""

import asyncio

import pytest

from mledger.bookie.server.serving.long_polls import AnswerRoom, LongPolls
from tests.support.aio import run

FOR_EVER_S = 1e9


class WaitingReads:
    """Waiting reads of clients, and their outcome."""

    def __init__(self, most=10):
        self.polls = LongPolls(asyncio.get_running_loop(), most)
        self.woken = []

    def wait(self, name, ledger=1, previous=5, wait_s=FOR_EVER_S, client="client"):
        """Whether a read waits now."""
        return self.polls.wait(client, ledger, previous, wait_s, lambda advanced: self.woken.append((name, advanced)))


def test_reads_that_know_less_are_woken_once():
    async def main():
        waiting = WaitingReads()
        waiting.wait("knows 5")
        waiting.wait("knows 7", previous=7)
        waiting.wait("another ledger", ledger=2)
        for confirmed in (5, 7, 7):
            waiting.polls.advance(1, confirmed)
        return waiting.woken, len(waiting.polls)

    assert run(main()) == ([("knows 5", True)], 2)


def test_a_read_that_cannot_be_answered_keeps_no_other_one_waiting():
    def broken(_):
        raise MemoryError

    async def main():
        waiting = WaitingReads()
        for name in ("first", "last"):
            waiting.wait(name)
            waiting.polls.wait("client", 1, 5, FOR_EVER_S, broken)
        waiting.polls.advance(1, 6)
        return sorted(waiting.woken), len(waiting.polls)

    assert run(main()) == ([("first", True), ("last", True)], 0)


@pytest.mark.parametrize("wait_s", [0.0, -1.0, 0.01])
def test_a_read_ends_when_its_time_is_up(wait_s):
    async def main():
        waiting, ended = WaitingReads(), asyncio.get_running_loop().create_future()
        waiting.polls.wait("client", 1, 5, wait_s, ended.set_result)
        return await ended, len(waiting.polls)

    assert run(main()) == (False, 0)


def test_a_read_beyond_the_limit_does_not_wait():
    async def main():
        waiting = WaitingReads(most=2)
        return [waiting.wait(name) for name in ("first", "second", "third")]

    assert run(main()) == [True, True, False]


def test_a_disconnected_client_is_dropped_alone():
    async def main():
        waiting = WaitingReads()
        waiting.wait("of the one that goes", client="gone")
        waiting.wait("of the one that stays")
        waiting.polls.forget("gone")
        waiting.polls.forget("gone")
        waiting.polls.advance(1, 6)
        return waiting.woken, len(waiting.polls)

    assert run(main()) == ([("of the one that stays", True)], 0)


def test_a_read_that_is_woken_may_wait_again():
    async def main():
        waiting = WaitingReads()
        waiting.polls.wait("client", 1, 5, FOR_EVER_S, lambda _: waiting.wait("again", previous=6))
        waiting.polls.advance(1, 6)
        waiting.polls.advance(1, 7)
        return waiting.woken

    assert run(main()) == [("again", True)]


class SlowReceiver:
    """A client that takes nothing until it is told to."""

    def __init__(self):
        self.unsent = 0

    def answer(self, room, size):
        """Whether an answer with an entry of `size` bytes was sent."""
        taken = room.take(self, size)
        self.unsent += size if taken else 0
        return taken


def test_answers_to_woken_reads_hold_entries_only_as_far_as_clients_take_them():
    async def main():
        room, receivers = AnswerRoom(asyncio.get_running_loop(), 100), [SlowReceiver() for _ in range(4)]
        at_once = [each.answer(room, 40) for each in receivers]
        receivers[0].unsent = 0
        await asyncio.sleep(0)
        after_one_took = [each.answer(room, 40) for each in receivers[2:]]
        room.forget(receivers[1])
        await asyncio.sleep(0)
        return at_once, after_one_took, receivers[3].answer(room, 40)

    assert run(main()) == ([True, True, False, False], [True, False], True)
