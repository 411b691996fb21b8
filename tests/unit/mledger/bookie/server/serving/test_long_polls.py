"""Reads that wait for the last add confirmed: woken by it or by time-out, limited, dropped with their client."""

import asyncio

import pytest

from mledger.bookie.server.serving.long_polls import LongPolls
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
