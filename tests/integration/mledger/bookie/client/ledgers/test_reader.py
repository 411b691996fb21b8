"""Reads of ranges: after a bad answer of one bookie another is asked (Q1)."""

from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.client import BookKeeper, ClientConfig
from mledger.metastore.cluster.bookies import register
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.local_bookie import SMALL, serving
from tests.support.bookies.processes import AUTHENTICATING
from tests.support.ledgers import client, payloads


def cut_batches(local):
    """Make a bookie's answers to batch reads end inside an entry, in frames of the right length."""
    answer = local.bookie.turns.reader._batch

    def cut(state, request, batch):
        whole = b"".join(answer(state, request, batch))
        return [wire.LENGTH.pack(len(whole) - wire.LENGTH.size - 3) + whole[wire.LENGTH.size : -3]]

    local.bookie.turns.reader._batch = cut


def test_a_bookie_whose_batch_answers_end_inside_an_entry_fails_no_read_that_others_can_answer(tmp_path):
    async def main():
        async with (
            await open_store("memory:") as store,
            serving(tmp_path / "a") as good,
            serving(tmp_path / "b") as bad,
        ):
            await initialize(store)
            for name, local in (("good", good), ("bad", bad)):
                await register(store, name, *local.address)
            bookkeeper = BookKeeper(store)
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(100))
            await writer.close()
            cut_batches(bad)
            reader = await bookkeeper.open_ledger(writer.ledger_id)
            for _ in range(2):  # each bookie is asked first once
                assert await reader.read(0, 99) == payloads(100)
            assert {replica.bookie_id for replica in bookkeeper.bad_replicas} == {"bad"}
            await bookkeeper.close()

    run(main())


def test_a_bookie_that_refuses_its_client_fails_no_read_that_others_can_answer(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 2, 2)
            await writer.append(payloads(12))
            await writer.close()
        bookies[0].arguments += AUTHENTICATING
        bookies.restart(0)
        async with client(bookies.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(writer.ledger_id)
            assert await reader.read(0, 11) == payloads(12)
        async with client(bookies.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(writer.ledger_id)
            assert [(await reader.read(entry, entry))[0] for entry in range(12)] == payloads(12)

    run(main())


def test_entries_above_the_reading_client_s_own_limit_are_read_and_recovered(tmp_path):
    """Pulsar's maxMessageSize is often raised, and a client that only looks at the cluster does not know it."""
    limit = 8 << 20
    large = [bytes([number]) * (limit - 1000) for number in range(3)]

    async def main():
        async with (
            await open_store("memory:") as store,
            serving(tmp_path / "a", config=replace(SMALL, max_frame=limit)) as local,
        ):
            await initialize(store)
            await register(store, "a", *local.address)
            writing = BookKeeper(store, ClientConfig(max_frame=limit))
            writer = await writing.create_ledger(1, 1, 1)
            await writer.append(large)
            await writing.close()
            reading = BookKeeper(store)
            assert await (await reading.open_ledger(writer.ledger_id)).read(0, 2) == large
            found = await reading.check_ledger(writer.ledger_id)
            assert (found.whole, found.away) == (3, ())
            await reading.close()

    run(main())
