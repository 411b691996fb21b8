"""Replays journals of directories of versions 1 and 2, which lack boundaries of runs and places of moves."""

import os
import struct

import pytest

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import CorruptJournal
from mledger.bookie.server.storage.journal import (
    OLD_FRAMES,
    OLD_MOVED,
    Journal,
    file_numbers,
    file_path,
    plan_replay,
    read_records,
    scan_file,
)
from mledger.bookie.server.storage.reads import JournalReader
from mledger.bookie.server.storage.records.replay import ledger_spans, replay
from mledger.bookie.server.storage.rows.index import Index
from tests.support.bookies.raw_bookie import entry

SALT, KEY = b"salt of 16 bytes", b"k" * 20
MOVE = struct.Struct(">?QQqII")


def adds(ledger, numbers, payload=b"payload"):
    """Add requests as they arrived."""
    return [wire.encode_add(KEY, entry(ledger, number, payload)) for number in numbers]


def moved(*runs):
    """The payload of a record of moved runs, each (repeated, ledger, first, last, frames)."""
    at, table = 4 + MOVE.size * len(runs), [struct.pack(">I", len(runs))]
    for repeated, ledger, first, last, frames in runs:
        table.append(MOVE.pack(repeated, ledger, first, last, at, len(frames)))
        at += len(frames)
    return b"".join((*table, *(run[-1] for run in runs)))


class OldBookie:
    """A journal of old records, and an index to replay it into."""

    def __init__(self, path):
        self.path = str(path / "journal")
        os.mkdir(self.path)
        self.index = Index(str(path / "store"))
        self.journal = Journal(self.path, SALT, 1 << 20, 0)
        self.journal.open()
        self.sequence = 0

    def write(self, kind, payload):
        """Append a record."""
        self.sequence += 1
        self.journal.append(self.sequence, kind, [payload])

    def replay(self):
        """Enter everything into the index."""
        scans = [scan_file(self.path, number, SALT) for number in file_numbers(self.path)]
        return replay(self.index, self.path, SALT, plan_replay(scans, 1))

    def entries(self, ledger, numbers):
        """The entries that the index finds, as stored."""
        reader, found = JournalReader(self.path), []
        for number in numbers:
            row = self.index.repeat(ledger, number) or self.index.run_at(ledger, number)
            run = reader.run(row) if row is not None and row.last >= number else None
            found.append(run.entry(run.index(number)) if run is not None and run.index(number) >= 0 else None)
        reader.close()
        return found


@pytest.fixture
def old(tmp_path):
    """A bookie's empty storage as an earlier version wrote it."""
    bookie = OldBookie(tmp_path)
    yield bookie
    bookie.journal.close()
    bookie.index.close()


def test_frames_and_fences_are_entered(old):
    fence = wire.encode_read(2, -1, wire.Flag.FENCE, KEY)
    old.write(OLD_FRAMES, b"".join((*adds(1, range(20)), fence, *adds(2, [3]))))
    assert old.replay() == 1
    assert old.entries(1, range(20)) == [entry(1, number, b"payload") for number in range(20)]
    record = old.index.ledger(2)
    assert record is not None
    assert (record.fenced, record.master_key) == (True, KEY)


def test_all_of_a_record_with_more_requests_than_one_scan_finds_is_entered(old):
    """Adds of many ledgers take turns, and adds of another size come behind them."""
    rounds = request_frames.MOST_FRAMES // 2 + 1
    frames = [frame for number in range(rounds) for ledger in (1, 2) for frame in adds(ledger, [number])]
    fence = wire.encode_read(4, -1, wire.Flag.FENCE, KEY)
    old.write(OLD_FRAMES, b"".join((*frames, *adds(3, range(10), b"another size"), fence)))
    old.replay()
    assert old.entries(3, range(10)) == [entry(3, number, b"another size") for number in range(10)]
    assert old.entries(2, [rounds - 1]) == [entry(2, rounds - 1, b"payload")]
    assert old.index.ledger(4).fenced
    (record,) = read_records(old.path, 1, SALT)
    assert (3, 0, 9) in ledger_spans(record)


def test_a_record_that_is_not_made_of_requests_is_not_passed_over(old):
    old.write(OLD_FRAMES, b"".join((*adds(1, range(20)), bytes(30))))
    with pytest.raises(CorruptJournal, match="record 1 is valid but is not made of requests from byte"):
        old.replay()


def test_moving_the_first_of_two_joined_rows_loses_nothing(old):
    """The bookie had entries 0 to 4 and 5 to 9 as two rows of one record, which is now found as one row."""
    frames = adds(1, range(10))
    old.write(OLD_FRAMES, b"".join(frames))
    old.write(OLD_MOVED, moved((False, 1, 0, 4, b"".join(frames[:5]))))
    old.replay()
    assert old.entries(1, range(10)) == [entry(1, number, b"payload") for number in range(10)]


def test_a_move_of_a_whole_row_is_applied(old):
    frames = b"".join(adds(1, range(10)))
    old.write(OLD_FRAMES, frames)
    old.write(OLD_FRAMES, b"".join(adds(9, [0], bytes((1 << 20) - 5000))))
    old.write(OLD_MOVED, moved((False, 1, 0, 9, frames)))
    assert file_numbers(old.path) == [1, 2]
    old.replay()
    (row,) = old.index.runs(1)
    assert row.file == 2
    assert old.entries(1, range(10)) == [entry(1, number, b"payload") for number in range(10)]


def test_a_move_of_entries_replaced_meanwhile_does_not_bring_the_old_bytes_back(old):
    (first,), (second,) = adds(1, [2], b"first"), adds(1, [2], b"again")
    old.write(OLD_FRAMES, b"".join((*adds(1, [5]), first)))
    old.write(OLD_FRAMES, second)
    old.write(OLD_MOVED, moved((True, 1, 2, 2, first)))
    old.replay()
    assert old.entries(1, [2]) == [entry(1, 2, b"again")]


def test_a_move_out_of_a_deleted_file_is_applied(old):
    frames = b"".join(adds(1, range(10)))
    old.write(OLD_FRAMES, frames)
    old.write(OLD_FRAMES, b"".join(adds(9, [0], bytes((1 << 20) - 5000))))
    old.replay()
    old.write(OLD_MOVED, moved((False, 1, 0, 9, frames)))
    os.unlink(file_path(old.path, 1))
    scans = [scan_file(old.path, 2, SALT)]
    replay(old.index, old.path, SALT, plan_replay(scans, 3))
    assert old.entries(1, range(10)) == [entry(1, number, b"payload") for number in range(10)]
