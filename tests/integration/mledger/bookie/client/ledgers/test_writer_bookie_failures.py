"""A ledger's writer with bookies killed, frozen and missing (Q2, M5), and with the metadata store stalled (Q2, M7)."""

import asyncio

import pytest
from msgspec.structs import replace

from mledger.bookie.client import ClientConfig
from mledger.bookie.errors import LedgerConflict, LedgerFenced, NotEnoughBookies, Unauthorized
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerState, Segment
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import AUTHENTICATING, BookieProcesses, initialize_cluster
from tests.support.bookies.silent_bookie import silent_bookie
from tests.support.ledgers import QUICK, client, holders, payloads
from tests.support.metadata.stores import impatient


def member(bookies, writer, index=0):
    """The number of the bookie at this index of the writer's ensemble."""
    wanted = writer.metadata.ensemble[index]
    return next(number for number, bookie in enumerate(bookies) if bookie.bookie_id == wanted)


async def read_all(bookies, writer, count):
    """Every entry of the ledger, read by another client."""
    async with client(bookies.metadata_url) as other:
        reader = await other.open_ledger(writer.ledger_id)
        assert reader.last_entry == count - 1
        return await reader.read(0, count - 1)


@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 3, 2), (3, 2, 2)])
def test_a_killed_bookie_is_replaced_and_no_acknowledged_entry_is_lost(bookies, ensemble, write, ack):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(ensemble, write, ack)
            await writer.append(payloads(100))
            pending = [writer.append(payloads(50, start)) for start in range(100, 2000, 50)]
            bookies.kill(member(bookies, writer))
            pending += [writer.append(payloads(50, start)) for start in range(2000, 4000, 50)]
            await asyncio.gather(*pending)
            while len(writer.metadata.segments) == 1:  # the writer may notice the kill after the last acknowledgement
                await writer.append(payloads(1, writer.last_add_confirmed + 1))
            metadata = await writer.close()
            assert len(metadata.segments) == 2
            assert set(metadata.ensemble) - set(metadata.segments[0].bookies)
            count = metadata.last_entry + 1
            assert await read_all(bookies, writer, count) == payloads(count)

    run(main())


def test_entries_are_acknowledged_only_after_the_metadata_names_their_ensemble(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper, await open_store(bookies.metadata_url) as store:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(10))
            bookies.kill(member(bookies, writer))
            await writer.append(payloads(10, 10))
            metadata, _ = await LedgerStore(store).read(writer.ledger_id)
            assert [segment.first_entry for segment in metadata.segments] == [0, 10]
            new = [bookie for bookie in bookies if bookie.bookie_id in metadata.ensemble]
            assert await holders(new, writer.ledger_id, 19) == set(metadata.ensemble)

    run(main())


def test_without_a_spare_bookie_writing_continues_and_a_new_bookie_joins(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            bookies.kill(member(bookies, writer))
            await asyncio.gather(*(writer.append(payloads(10, start)) for start in range(0, 500, 10)))
            assert len(writer.metadata.segments) == 1
            (added,) = bookies.start(1)
            while added.bookie_id not in writer.metadata.ensemble:
                await writer.append(payloads(1, writer.last_add_confirmed + 1))
            count = writer.last_add_confirmed + 1
            assert await read_all(bookies, writer, count) == payloads(count)

    run(main())


def test_a_returning_bookie_takes_part_again(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            number = member(bookies, writer)
            bookies.kill(number)
            await writer.append(payloads(10, 10))
            back = bookies.restart(number)
            while not await holders([back], writer.ledger_id, writer.last_add_confirmed):
                await writer.append(payloads(1, writer.last_add_confirmed + 1))
            assert {segment.bookies for segment in writer.metadata.segments} == {writer.metadata.ensemble}
            count = writer.last_add_confirmed + 1
            assert await read_all(bookies, writer, count) == payloads(count)

    run(main())


def test_a_bookie_that_restarts_while_nothing_is_written_keeps_its_place(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            number = member(bookies, writer)
            bookies.restart(number)
            while 0 not in writer._replication.quorum.down:
                await asyncio.sleep(0.01)
            await writer.append(payloads(10, 10))
            assert len(writer.metadata.segments) == 1
            assert await holders([bookies[number]], writer.ledger_id, 19)

    run(main())


def test_with_too_few_bookies_left_appends_fail_and_the_ledger_closes_at_the_last_acknowledged_entry(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            for index in (0, 1):
                bookies.kill(member(bookies, writer, index))
            pending = [writer.append(payloads(10, start)) for start in (10, 20)]
            for future in pending:
                with pytest.raises(NotEnoughBookies, match="2 bookies of a write set are needed"):
                    await future
            assert writer.payloads_from(writer.last_add_confirmed + 1) == payloads(20, 10)
            with pytest.raises(NotEnoughBookies):
                await writer.append([b"late"])
            metadata = await writer.close()
            assert (metadata.state, metadata.last_entry, metadata.length) == (LedgerState.CLOSED, 9, 200)

    run(main())


def test_a_ledger_that_one_bookie_refuses_is_closed_and_the_next_is_on_others(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            wrong = bookies[member(bookies, writer)]
            wrong.arguments += AUTHENTICATING
            wrong.restart()
            while 0 not in writer._replication.quorum.down:
                await asyncio.sleep(0.01)
            with pytest.raises(Unauthorized):
                await writer.append(payloads(10, 10))
            metadata = await writer.close()
            assert (metadata.state, metadata.last_entry, metadata.length) == (LedgerState.CLOSED, 9, 200)
            assert wrong.bookie_id not in (await bookkeeper.create_ledger(3, 3, 3)).metadata.ensemble

    run(main())


def test_several_bookies_killed_at_once_are_all_replaced(bookies):
    bookies.start(5)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            dead = {writer.metadata.ensemble[index] for index in (0, 1)}
            for index in (0, 1):
                bookies.kill(member(bookies, writer, index))
            await writer.append(payloads(10, 10))
            while set(writer.metadata.ensemble) & dead:
                await writer.append(payloads(1, writer.last_add_confirmed + 1))
            count = writer.last_add_confirmed + 1
            assert await read_all(bookies, writer, count) == payloads(count)

    run(main())


def test_a_frozen_bookie_is_noticed_and_replaced(bookies):
    bookies.start(6)

    async def main():
        config = replace(QUICK, add_timeout_s=4.0)
        async with client(bookies.metadata_url, config) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            frozen = member(bookies, writer)
            bookies.freeze(frozen)
            try:
                assert await writer.append(payloads(10, 10)) == 10
            finally:
                bookies.thaw(frozen)
            assert bookies[frozen].bookie_id not in writer.metadata.ensemble

    run(main())


def test_a_frozen_bookie_with_a_full_send_buffer_delays_the_writer_until_it_is_replaced(bookies):
    bookies.start(6)
    big = [bytes(1 << 20)] * 16

    async def main():
        config = replace(QUICK, stall_timeout_s=3.0)
        async with client(bookies.metadata_url, config) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            frozen = member(bookies, writer)
            bookies.freeze(frozen)
            try:
                for _ in range(6):
                    await writer.append(big)
            finally:
                bookies.thaw(frozen)
            assert bookies[frozen].bookie_id not in writer.metadata.ensemble

    run(main())


def test_a_dead_bookie_that_is_still_registered_is_not_chosen_for_a_new_ledger(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            bookies.kill(2)
            assert bookies[2].bookie_id in {found.bookie_id for found in await bookkeeper.bookies()}
            for _ in range(5):
                writer = await bookkeeper.create_ledger(3, 3, 2)
                assert bookies[2].bookie_id not in writer.metadata.ensemble
            with pytest.raises(NotEnoughBookies, match="unreachable"):
                await bookkeeper.create_ledger(4, 3, 2)

    run(main())


def test_a_ledger_recovered_by_another_client_is_not_changed(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper, await open_store(bookies.metadata_url) as store:
            writer = await bookkeeper.create_ledger(3, 3, 3)
            records = LedgerStore(store)
            metadata, version = await records.read(writer.ledger_id)
            await records.put(writer.ledger_id, replace(metadata, state=LedgerState.IN_RECOVERY), version)
            bookies.kill(member(bookies, writer))
            with pytest.raises(LedgerFenced, match="IN_RECOVERY"):
                await writer.append(payloads(10))
            with pytest.raises(LedgerFenced):
                await writer.close()
            assert (await records.read(writer.ledger_id))[1] == version + 1

    run(main())


def test_a_change_of_the_last_ensemble_by_another_is_a_conflict(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper, await open_store(bookies.metadata_url) as store:
            writer = await bookkeeper.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            records = LedgerStore(store)
            metadata, version = await records.read(writer.ledger_id)
            other = (*metadata.ensemble[1:], "127.0.0.1:1")
            await records.put(writer.ledger_id, replace(metadata, segments=(Segment(0, other),)), version)
            bookies.kill(member(bookies, writer))
            with pytest.raises(LedgerConflict, match="changed its last ensemble"):
                await writer.append(payloads(10))

    run(main())


def test_an_earlier_segment_changed_by_another_is_kept(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper, await open_store(bookies.metadata_url) as store:
            writer = await bookkeeper.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            bookies.kill(member(bookies, writer))
            await writer.append(payloads(10, 10))
            records = LedgerStore(store)
            metadata, version = await records.read(writer.ledger_id)
            replicated = Segment(0, metadata.ensemble)  # re-replication removed the dead bookie (Q6)
            await records.put(writer.ledger_id, replace(metadata, segments=(replicated, metadata.segments[1])), version)
            closed = await writer.close()
            assert closed.segments == (replicated, metadata.segments[1])
            assert (closed.state, closed.last_entry) == (LedgerState.CLOSED, 19)

    run(main())


@pytest.fixture
def stalled(zookeeper_server, tmp_path):
    """A metadata store that can be frozen, with bookies that stay registered."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    yield zookeeper_server, processes
    processes.close()


def test_with_the_metadata_store_stalled_a_change_of_ensemble_acknowledges_nothing(stalled):
    zookeeper, bookies = stalled
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(10))
            dead = bookies[member(bookies, writer)].bookie_id
            await bookkeeper.bookies()
            zookeeper.freeze()
            bookies.kill(member(bookies, writer))
            pending = writer.append(payloads(10, 10))
            other = writer.append(payloads(10, 20))
            seen = []
            for future in (pending, other):
                future.add_done_callback(lambda _: seen.append(writer.metadata.ensemble))
            while not bookkeeper._pool.quarantine.failed():
                await asyncio.sleep(0)
            assert not pending.done()
            zookeeper.thaw()
            assert await pending == 10
            assert await other == 20
            assert all(dead not in ensemble for ensemble in seen)
            assert [segment.first_entry for segment in writer.metadata.segments] == [0, 10]

    run(main())


def test_a_silent_bookie_that_joins_after_a_long_change_of_ensemble_is_timed_out(stalled):
    zookeeper, bookies = stalled
    bookies.start(2)

    async def main():
        config = replace(QUICK, add_timeout_s=1.0)
        async with client(bookies.metadata_url, config) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(10))
            async with silent_bookie(bookies.metadata_url) as silent:
                await bookkeeper.bookies()
                zookeeper.freeze()
                bookies.kill(0)
                appended = writer.append(payloads(10, 10))
                while not writer._replication.quorum.down:
                    await asyncio.sleep(0)
                while writer._replication._progress._timer is not None:  # no bookie owes an answer
                    await asyncio.sleep(0.01)
                zookeeper.thaw()
                with pytest.raises(NotEnoughBookies, match="acknowledged nothing for 1 s"):
                    await appended
                assert silent in writer.metadata.ensemble
                assert (await writer.close()).last_entry == 9

    run(main(), timeout=120.0)


def test_a_close_that_the_stalled_metadata_store_did_not_carry_out_can_be_tried_again(stalled):
    zookeeper, bookies = stalled
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url, replace(QUICK, metadata_timeout_s=1.0)) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            zookeeper.freeze()
            with pytest.raises(StoreUnavailable):
                await writer.close()
            zookeeper.thaw()
            assert (await writer.close()).last_entry == (await writer.close()).last_entry == 9
            assert await read_all(bookies, writer, 10) == payloads(10)

    run(main())


def test_with_the_metadata_store_stalled_the_remaining_ack_quorum_continues(stalled):
    zookeeper, bookies = stalled
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url, ClientConfig()) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            zookeeper.freeze()
            try:
                bookies.kill(member(bookies, writer))
                await asyncio.gather(*(writer.append(payloads(10, start)) for start in range(10, 500, 10)))
            finally:
                zookeeper.thaw()
            assert writer.last_add_confirmed == 499
            assert (await writer.close()).last_entry == 499

    run(main())


def test_entries_delayed_by_a_full_send_buffer_are_acknowledged_when_its_bookie_goes_away(bookies):
    bookies.start(2)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            (busy, _) = writer._replication._connections.indexes
            busy.pause_writing()  # other ledgers of this client have filled it
            appended = writer.append(payloads(5))
            while writer.last_add_confirmed < 4:
                await asyncio.sleep(0.01)
            assert not appended.done()
            bookies.kill(member(bookies, writer))
            assert await appended == 0

    run(main())


def test_with_the_metadata_store_down_a_killed_bookie_stops_neither_reads_nor_appends(stalled):
    zookeeper, bookies = stalled
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url, replace(QUICK, quarantine_s=0.0)) as bookkeeper:
            writers = [await bookkeeper.create_ledger(3, 3, 2) for _ in range(3)]
            for writer in writers:
                await writer.append(payloads(10))
            await writers[0].close()
            reader = await bookkeeper.open_ledger(writers[0].ledger_id)
            connection = await bookkeeper._pool.connection(bookies[0].bookie_id)
            zookeeper.freeze()
            bookies.kill(0)
            while not connection.closed:
                await asyncio.sleep(0.01)
            with impatient(bookkeeper._nodes):
                for number in range(3):
                    assert await reader.read_entry(number)
                    for writer in writers[1:]:
                        assert await writer.append(payloads(1)) == 10 + number
                        await asyncio.sleep(0.3)  # a refused connection is tried again
            zookeeper.thaw()

    run(main())
