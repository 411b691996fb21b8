"""Journal files that are damaged or cannot be read are kept and named; the others are collected."""

import errno

import pytest

from mledger.bookie.server.process import garbage
from mledger.bookie.server.storage.journal import file_numbers, file_path, read_records
from tests.support.bookies.collected_bookie import LEDGERS, in_cluster


@pytest.mark.parametrize(("step", "at"), [("read_contents", 2), ("read_frames", 1)])
def test_an_unreadable_file_is_kept_and_reported_once_and_the_others_are_compacted(
    tmp_path, monkeypatch, caplog, step, at
):
    """`step` reads the file whose number is its argument `at`."""

    async def test(cluster):
        bookie = cluster.local.bookie
        bad = min(file_numbers(bookie.journal_path))
        read = getattr(garbage, step)

        def failing(*arguments):
            if arguments[at] == bad:
                raise OSError(errno.EIO, "Input/output error")
            return read(*arguments)

        monkeypatch.setattr(garbage, step, failing)
        for ledger in (1, 2):
            await cluster.ledgers.delete(ledger)
        for _ in range(3):
            await cluster.collector.run(cluster.store)
        assert [each for each in file_numbers(bookie.journal_path) if each < bookie.turns.file][:1] == [bad]
        assert bookie.counters.garbage.damaged_files == 1
        assert caplog.text.count("event=journal_file_damaged") == 1
        assert bookie.counters.garbage.files_emptied > 1
        assert (await cluster.errors())[2] == 0

    in_cluster(tmp_path, test)


@pytest.mark.parametrize("damaged", [0, 8])
def test_a_file_with_a_damaged_record_is_marked_once_the_rest_of_it_was_moved(tmp_path, caplog, damaged):
    async def test(cluster):
        bookie = cluster.local.bookie
        number = min(file_numbers(bookie.journal_path))
        record = list(read_records(bookie.journal_path, number, bookie.salt))[damaged]
        with open(file_path(bookie.journal_path, number), "r+b") as file:
            file.seek(record.place.offset)
            file.write(bytes(100))
        for ledger in LEDGERS[:2]:
            await cluster.ledgers.delete(ledger)
        await cluster.collector.collect(cluster.store)
        await cluster.collector.reclaim()
        assert f"event=journal_file_damaged file={number} " in caplog.text
        assert bookie.counters.garbage.damaged_files == 1

    in_cluster(tmp_path, test)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread"), MemoryError()],
    ids=["files", "threads", "memory"],
)
def test_a_file_is_collected_once_the_system_lacks_nothing_any_more(tmp_path, monkeypatch, error):
    async def test(cluster):
        bookie = cluster.local.bookie

        def failing(*_):
            raise error

        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        with monkeypatch.context() as patch:
            patch.setattr(garbage, "read_contents", failing)
            await cluster.collector.run(cluster.store)
        found = bookie.counters.garbage
        assert (found.damaged_files, found.bytes_reclaimed) == (0, 0)
        assert found.failures > 0
        await cluster.collector.run(cluster.store)
        assert (found.damaged_files, found.bytes_reclaimed > 0) == (0, True)

    in_cluster(tmp_path, test)
