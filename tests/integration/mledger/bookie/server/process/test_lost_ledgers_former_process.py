"""A bookie that starts with a new directory, or an older copy, while its former process still serves."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.bookie.errors import Code, RecoveryUndecided
from mledger.bookie.server.process import main as process
from mledger.bookie.server.process.options import parse_options
from mledger.metastore.cluster.bookies import list_bookies, register, unregister
from mledger.metastore.cluster.cookies import delete_cookie
from mledger.metastore.store import ANY_VERSION, SessionState
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses
from tests.support.ledgers import (
    client,
    lay_down_ledger,
    open_when_reachable,
    payloads,
    read_raw,
    store_raw,
    stored_entry,
)


async def logged(bookie, event: str) -> None:
    """Return once the bookie has logged an event."""
    while event not in bookie.log():
        await asyncio.sleep(0.02)


def test_what_the_former_process_still_acknowledges_is_not_proven_absent(bookies: BookieProcesses):
    """Ten entries are acknowledged by the bookies 0 and 1; bookie 2 lags. Bookie 0 has a successor by then."""
    former = bookies.add("--bookie-id", "replaced")
    former.start()
    bookies.start(2)
    successor = bookies.add("--bookie-id", "replaced")

    async def main():
        async with await open_store(bookies.metadata_url) as store:
            await delete_cookie(store, former.bookie_id, ANY_VERSION)
        successor.launch()
        await logged(successor, "registration_waited_for")
        ledger = await lay_down_ledger(bookies.metadata_url, bookies[:3], 3, 2)
        for number, payload in enumerate(payloads(10)):
            stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
            for bookie in bookies[:2]:
                await store_raw(bookie, stored)
        former.stop()
        await asyncio.to_thread(successor.wait_serving)
        bookies.kill(1)
        async with client(bookies.metadata_url) as bookkeeper:
            with pytest.raises(RecoveryUndecided):
                await bookkeeper.open_ledger(ledger)
            bookies.restart(1)
            reader = await open_when_reachable(bookkeeper, ledger)
            assert (reader.last_entry, await reader.read(0, 9)) == (9, payloads(10))

    run(main())


class Successor:
    """A new bookie of the id "replaced" in this process, and what it does meanwhile."""

    def __init__(self, url, directory):
        options = parse_options(["--metadata", url, "--dir", str(directory), "--bookie-id", "replaced"])
        self.process = process.BookieProcess(options)
        self.served = asyncio.get_running_loop().create_future()
        self.running = asyncio.ensure_future(self.process.serve(lambda fields: self.served.set_result(fields)))

    async def answer(self, ledgers: list[int]) -> int:
        """The code of its answer to a read of the first entry of the one ledger there is by then, once it serves."""
        await asyncio.wait([self.served, self.running], return_when="FIRST_COMPLETED")
        if self.running.done():
            await self.running
        (ledger,) = ledgers
        address = self.served.result()["host"], self.served.result()["port"]
        code = (await read_raw(SimpleNamespace(address=address, host=address[0], port=address[1]), ledger, 0)).error
        self.process.stop()
        await self.running
        return code


async def ledger_of(url: str) -> int:
    """A ledger that names the bookie "replaced" only, as one that its former process has just taken entries of."""
    return await lay_down_ledger(url, [SimpleNamespace(bookie_id="replaced")], 1, 1)


@pytest.mark.parametrize("stays", [False, True], ids=["gone again", "still there"])
def test_what_a_former_process_takes_while_the_storage_is_opened_is_not_proven_absent(
    tmp_path, cluster_url, monkeypatch, stays
):
    others_here = process.BookieProcess._others_here

    async def main():
        async with await open_store(cluster_url) as former:

            async def meanwhile(starting):  # asked between the opening of the storage and the registration
                if not ledgers:
                    await register(former, "replaced", "127.0.0.2", 3181)
                    ledgers.append(await ledger_of(cluster_url))
                    if not stays:
                        await unregister(former, "replaced")
                return await others_here(starting)

            async def end_former(starting, seconds):
                await unregister(former, "replaced")

            monkeypatch.setattr(process.BookieProcess, "_others_here", meanwhile)
            monkeypatch.setattr(process.BookieProcess, "_stopped_within", end_former)
            successor = Successor(cluster_url, tmp_path / "bookie")
            return await successor.answer(ledgers)

    ledgers: list[int] = []
    assert run(main()) == Code.UNKNOWN_LEDGER_STATE


def test_the_list_is_made_anew_if_the_session_ends_meanwhile(tmp_path, cluster_url, monkeypatch):
    find_lost = process.find_lost

    async def main():
        async def find_and_expire(*arguments):
            found = await find_lost(*arguments)
            if not ledgers:
                successor.process._metadata._connection.session.change(SessionState.EXPIRED)
                ledgers.append(await ledger_of(cluster_url))
            return found

        monkeypatch.setattr(process, "find_lost", find_and_expire)
        successor = Successor(cluster_url, tmp_path / "bookie")
        return await successor.answer(ledgers)

    ledgers: list[int] = []
    assert run(main()) == Code.UNKNOWN_LEDGER_STATE


def test_no_owner_chooses_a_bookie_that_still_looks_for_what_it_may_lack(tmp_path, cluster_url, monkeypatch):
    """And one that ends before it has noted that looks again."""
    find_lost, looking, format_file = process.find_lost, asyncio.Event(), tmp_path / "bookie" / "FORMAT"

    async def look_for_ever(*_):
        looking.set()
        await asyncio.Event().wait()

    async def main():
        monkeypatch.setattr(process, "find_lost", look_for_ever)
        first = Successor(cluster_url, tmp_path / "bookie")
        await looking.wait()
        async with await open_store(cluster_url) as store:
            listed = [(each.bookie_id, each.read_only) for each in await list_bookies(store)]
        first.process.stop()
        await first.running
        assert "complete no" in format_file.read_text()
        ledger = await ledger_of(cluster_url)
        monkeypatch.setattr(process, "find_lost", find_lost)
        second = Successor(cluster_url, tmp_path / "bookie")
        await asyncio.wait([second.served, second.running], return_when="FIRST_COMPLETED")
        async with await open_store(cluster_url) as store:
            served = [(each.bookie_id, each.read_only) for each in await list_bookies(store)]
        assert (listed, served) == ([("replaced", True)], [("replaced", False)])
        assert "complete yes" in format_file.read_text()
        return await second.answer([ledger])

    assert run(main()) == Code.UNKNOWN_LEDGER_STATE
