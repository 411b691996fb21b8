"""Bookies that do not answer leave time to ask all others."""

import asyncio

import pytest

from mledger.bookie.client.connections.bookie_info import BookieInfo
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.bookie.errors import BookieUnavailable
from mledger.exporter import bookie_disks
from mledger.exporter.bookie_disks import AT_ONCE, ask_disks, plan_place
from mledger.metastore.cluster.bookies import register
from mledger.metastore.memory.store import MemoryStore
from tests.support.aio import run

SILENT = 4 * AT_ONCE
DISK = BookieInfo(10, 5)


def test_silent_bookies_do_not_keep_a_healthy_one_from_being_asked(monkeypatch):
    async def main():
        answered = asyncio.Event()

        async def ask(host, port, timeout_s, connector):
            if port == SILENT + 1:
                answered.set()
                return DISK
            await answered.wait()  # the others are still waited for
            raise BookieUnavailable(f"{host}:{port} did not answer")

        monkeypatch.setattr(bookie_disks, "ask_info", ask)
        store = MemoryStore()
        for number in range(1, SILENT + 2):
            await register(store, f"bookie-{number:03}:1", "127.0.0.1", number)
        return await ask_disks(store, BookieConnector(), timeout_s=0.01, all_timeout_s=60.0)

    assert run(main()) == {f"bookie-{SILENT + 1:03}:1": DISK}


def test_requests_that_are_left_when_the_time_is_up_are_cancelled(monkeypatch):
    ended = []

    async def ask(host, port, timeout_s, connector):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(port)

    async def main():
        monkeypatch.setattr(bookie_disks, "ask_info", ask)
        store = MemoryStore()
        for number in (1, 2, 3):
            await register(store, f"bookie-{number}:1", "127.0.0.1", number)
        found = await ask_disks(store, BookieConnector(), timeout_s=0.01, all_timeout_s=0.1)
        return found, sorted(ended)

    assert run(main()) == ({}, [1, 2, 3])


@pytest.mark.parametrize("bookies", [1, 16, 17, 64, 1000, 100_000])
def test_the_last_bookie_is_asked_in_time_to_answer(bookies):
    begun_s = (bookies - 1) // AT_ONCE * plan_place(bookies, 5.0, 20.0)
    assert begun_s + 5.0 <= 20.0


def test_few_bookies_keep_their_places_until_their_time_is_up():
    assert plan_place(AT_ONCE, 5.0, 20.0) == 5.0
