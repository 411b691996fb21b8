"""After a kill and a restart the index is what the running bookie had, row by row, whatever it was doing."""

import asyncio
import random
import threading

from mledger.bookie import request_frames, wire
from mledger.bookie.client.connections.frames import recovery_parts
from mledger.bookie.digest import master_key
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.storage.rows.index import Index
from tests.support.aio import run
from tests.support.bookies.absent_client import AbsentClient
from tests.support.bookies.bookie_copies import contents, copy_as_killed
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
CONFIG = BookieConfig(journal_file_bytes=1 << 20)


def add(bookie, ledger, numbers, payload=b"payload"):
    """Give a bookie adds as one receive buffer would, without waiting; more of the same turn follow."""
    buffer = bytearray(b"".join(wire.encode_add(KEY, entry(ledger, number, payload)) for number in numbers))
    for adds in request_frames.scan(buffer, 0, len(buffer)).requests:
        bookie.turns.add(AbsentClient(), buffer, adds)


def fence(bookie, ledger):
    """Give a bookie a fence, without waiting."""
    frame = wire.encode_read(ledger, wire.LAST_ENTRY, wire.Flag.FENCE, KEY)
    bookie.turns.read(AbsentClient(), wire.decode_read(frame))


def move(bookie, rows):
    """Move rows, without waiting."""
    return bookie.turns.move([(repeated, row, bookie.files.frames(row)) for repeated, row in rows])


def delete(bookie, ledger):
    """Delete a ledger that has nothing under way. Returns whether it was deleted."""
    state = bookie.turns.ledgers.get(ledger)
    return bookie.turns.delete(ledger, (state, state.commit), bookie.index.needed_bytes(ledger))


async def read_all(local, ledger, numbers):
    """The entries of a ledger, or None for a missing one."""
    async with RawBookieClient(local) as client:
        answers = [await client.ask(wire.encode_read(ledger, number)) for number in numbers]
    return [answer.body if answer.error == 0 else None for answer in answers]


def test_neighbouring_runs_of_one_record_stay_two_rows_when_one_is_moved(tmp_path):
    async def before():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie = local.bookie
            add(bookie, 1, range(100))
            add(bookie, 1, range(100, 250))
            await bookie.turns.drain()
            rows = list(bookie.index.runs(1))
            assert [(row.first, row.last) for row in rows] == [(0, 99), (100, 249)]
            await move(bookie, [(False, rows[0])])
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
            return contents(bookie.index)

    async def after():
        async with serving(tmp_path / "as-killed", config=CONFIG) as local:
            return contents(local.bookie.index), await read_all(local, 1, range(250))

    expected = run(before())
    found, entries = run(after())
    assert found == expected
    assert entries == [entry(1, number, b"payload") for number in range(250)]


def test_a_restart_reads_a_repeat_that_arrived_while_its_row_was_moved(tmp_path):
    async def before():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie = local.bookie
            add(bookie, 1, [5, 2], b"first")
            await bookie.turns.drain()
            (row,) = bookie.index.repeats(1)
            add(bookie, 1, [2], b"later")
            await move(bookie, [(True, row)])
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")

    async def after():
        async with serving(tmp_path / "as-killed", config=CONFIG) as local:
            return await read_all(local, 1, [2])

    run(before())
    assert run(after()) == [entry(1, 2, b"later")]


def test_a_restart_does_not_count_bytes_of_superseded_repeats(tmp_path):
    async def before():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            add(local.bookie, 1, [9])
            for _ in range(10):
                add(local.bookie, 1, range(8), bytes(500))
            await local.bookie.turns.drain()
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
            return contents(local.bookie.index)

    async def after():
        async with serving(tmp_path / "as-killed", config=CONFIG) as local:
            return contents(local.bookie.index)

    ran, replayed = run(before()), run(after())
    assert ran.live == ran.counted()
    assert replayed.live == replayed.counted()


async def anything(bookie, rng):
    """Adds, repeated adds, fences, moves and deletions in any order, several in one turn."""
    for _ in range(120):
        ledger = rng.randrange(1, 5)
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                highest = bookie.turns.ledgers.get(ledger).highest
                add(bookie, ledger, range(highest + 1, highest + 1 + rng.randrange(1, 40)), bytes(700))
            case 4 | 5:
                add(bookie, ledger, [rng.randrange(30) for _ in range(4)], rng.randbytes(300))
            case 6:
                add(bookie, ledger, [rng.randrange(100)])
                if not rng.randrange(5):
                    fence(bookie, ledger)
            case 7:
                await bookie.turns.drain()
            case 8:
                await bookie.turns.drain()
                found = contents(bookie.index)
                rows = [(False, row) for row in found.runs] + [(True, row) for row in found.repeats]
                moved = move(bookie, rng.sample(rows, min(len(rows), 5)))
                add(bookie, ledger, [rng.randrange(30) for _ in range(2)])
                await moved
            case 9:
                await bookie.turns.drain()
                if not rng.randrange(4):
                    await deletion(bookie, ledger, rng)
    await bookie.turns.drain()


async def deletion(bookie, ledger, rng):
    """Delete a ledger and begin it again, at times when only the journal has any of that on disk."""
    delete(bookie, ledger)
    add(bookie, ledger, range(rng.randrange(1, 40)), bytes(700))  # refused if it was fenced
    if bookie.turns.ledgers.get(ledger).was_fenced or rng.randrange(2):
        await asyncio.get_running_loop().run_in_executor(None, bookie.index.flush)


def test_the_index_after_a_kill_equals_the_one_before_it_whatever_was_done(tmp_path):
    async def before(place, seed):
        async with serving(place, config=CONFIG) as local:
            await anything(local.bookie, random.Random(seed))
            copy_as_killed(place, place.with_suffix(".killed"))
            return contents(local.bookie.index)

    async def after(place):
        async with serving(place.with_suffix(".killed"), config=CONFIG) as local:
            return contents(local.bookie.index)

    for seed in range(6):
        place = tmp_path / str(seed)
        ran = run(before(place, seed))
        assert ran.live == ran.counted()
        assert run(after(place)) == ran, f"seed {seed}"


def test_a_file_begun_during_a_flush_is_flushed_after_it(tmp_path):
    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie, go_on, flush = local.bookie, threading.Event(), local.bookie.index.flush
            begun = threading.Event()

            def held():
                flush()
                begun.set()
                go_on.wait()

            bookie.index.flush = held
            async with RawBookieClient(local) as client:
                number = 0
                while not begun.is_set():
                    await client.ask(wire.encode_add(KEY, entry(1, number, bytes(200_000))))
                    number += 1
                for later in range(number, number + 11):
                    await client.ask(wire.encode_add(KEY, entry(1, later, bytes(200_000))))
            last = bookie.turns.file
            go_on.set()
            await bookie.turns.drain()
            bookie.index.flush = flush
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
            return last

    last = run(main())
    index = Index(str(tmp_path / "as-killed" / "store"))
    assert index.file == last
    index.close()


def test_a_row_deleted_while_it_was_moved_does_not_come_back(tmp_path):
    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie = local.bookie
            add(bookie, 1, range(10))
            await bookie.turns.drain()
            (row,) = bookie.index.runs(1)
            moved = move(bookie, [(False, row)])
            assert delete(bookie, 1)
            await moved
            return contents(bookie.index)

    found = run(main())
    assert (found.ledgers, found.runs, found.live) == ({}, [], {})


def test_a_ledger_begun_again_after_a_delete_that_a_kill_undoes_is_not_counted_twice(tmp_path):
    """The new rows of the same entries replace those from before the delete, whose bytes are not needed."""

    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie = local.bookie
            for life in range(3):
                for number in range(3):
                    add(bookie, 1, [number])
                    await bookie.turns.drain()
                if life == 0:
                    bookie.index.flush()
                if life < 2:
                    assert delete(bookie, 1)
            copy_as_killed(tmp_path / "bookie", tmp_path / "killed")
        async with serving(tmp_path / "killed", config=CONFIG) as local:
            found = contents(local.bookie.index)
            assert found.live == found.counted()
            assert await read_all(local, 1, range(3)) == [entry(1, number, b"payload") for number in range(3)]

    run(main())


def test_a_ledger_begun_again_with_other_runs_is_read_whole_after_a_kill_that_undoes_its_delete(tmp_path):
    """Re-replication brings deleted entries back in other runs. No row from before hides any of them."""

    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie = local.bookie
            for number in (0, 2, 3, 5):
                add(bookie, 1, [number])
                await bookie.turns.drain()
            add(bookie, 1, [2])
            await bookie.turns.drain()
            bookie.index.flush()
            assert delete(bookie, 1)
            for numbers in ((0, 1, 3, 4, 6, 7), (8, 2), (9,)):
                add(bookie, 1, numbers)
                await bookie.turns.drain()
            copy_as_killed(tmp_path / "bookie", tmp_path / "killed")
            ran = contents(bookie.index)
        async with serving(tmp_path / "killed", config=CONFIG) as local:
            return ran, contents(local.bookie.index), await read_all(local, 1, range(11))

    ran, replayed, entries = run(main())
    there = {*range(10)} - {5}
    assert entries == [entry(1, number, b"payload") if number in there else None for number in range(11)]
    assert replayed == ran


def test_a_fence_set_before_the_first_add_to_a_ledger_begun_again_survives_a_kill_that_undoes_its_delete(tmp_path):
    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local:
            bookie = local.bookie
            add(bookie, 1, range(3))
            await bookie.turns.drain()
            bookie.index.flush()
            assert delete(bookie, 1)
            fence(bookie, 1)
            await bookie.turns.drain()
            buffer = bytearray(recovery_parts([entry(1, 0, b"back")], KEY)[0] + entry(1, 0, b"back"))
            (adds,) = request_frames.scan(buffer, 0, len(buffer)).requests
            bookie.turns.add(AbsentClient(), buffer, adds)
            await bookie.turns.drain()
            copy_as_killed(tmp_path / "bookie", tmp_path / "killed")
        async with serving(tmp_path / "killed", config=CONFIG) as local:
            return local.bookie.index.ledger(1), await read_all(local, 1, range(3))

    record, entries = run(main())
    assert record is not None
    assert record.fenced
    assert entries == [entry(1, 0, b"back"), None, None]
