"""The journal's files: what is found in them after any end, and what is refused."""

import errno
import os
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.errors import CorruptJournal, DiskFull
from mledger.bookie.server.storage import journal as journal_module
from mledger.bookie.server.storage.directories import journal_files, open_files
from mledger.bookie.server.storage.journal import (
    BLOCK,
    FRAMES,
    MOVED,
    RECORD,
    FileScan,
    Journal,
    file_numbers,
    file_path,
    has_reached,
    plan_continued,
    plan_replay,
    read_records,
    scan_file,
)

SALT = b"salt of 16 bytes"
FILE = 1 << 20


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


def write(directory, records, first=1):
    """Write records to a new journal, as after a start. Returns their places."""
    journal = Journal(directory, SALT, FILE, max(file_numbers(directory), default=0))
    journal.open()
    places = [journal.append(first + at, FRAMES, list(chunks)) for at, chunks in enumerate(records)]
    journal.close()
    return places


def scans(directory):
    return [scan_file(directory, number, SALT) for number in file_numbers(directory)]


def found(directory, first=1):
    """Sequence and payload of everything that a start would replay, beginning with record `first`."""
    plan = plan_replay(scans(directory), first)
    records = [record for number in plan.files for record in read_records(directory, number, SALT)]
    return [(record.sequence, record.payload) for record in records if record.sequence >= first]


def overwrite(directory, number, at, data):
    with open(file_path(directory, number), "r+b") as file:
        file.seek(at)
        file.write(data)


def test_records_are_read_back_in_order(directory):
    write(directory, [(b"one",), (b"two", b" and more"), (bytes(10_000),)])
    assert found(directory) == [(1, b"one"), (2, b"two and more"), (3, bytes(10_000))]


def test_replay_starts_at_the_given_record(directory):
    write(directory, [(b"one",), (b"two",), (b"three",)])
    assert found(directory, 3) == [(3, b"three")]
    assert found(directory, 4) == []


def test_a_place_is_the_offset_of_the_payload(directory):
    places = write(directory, [(b"one",), (b"two",)])
    with open(file_path(directory, places[1].file), "rb") as file:
        file.seek(places[1].offset)
        assert file.read(3) == b"two"


def test_records_begin_at_block_boundaries(directory):
    places = write(directory, [(b"x",), (bytes(BLOCK),), (b"y",)])
    assert [place.offset - RECORD.size for place in places] == [0, BLOCK, 3 * BLOCK]


def test_a_full_file_is_followed_by_another(directory):
    payload = bytes(300_000)
    places = write(directory, [(payload,)] * 8)
    assert [place.file for place in places] == [1, 1, 1, 2, 2, 2, 3, 3]
    assert [sequence for sequence, _ in found(directory)] == list(range(1, 9))


def test_a_record_larger_than_a_file_gets_a_file_of_its_own(directory):
    places = write(directory, [(b"one",), (bytes(3 * FILE),), (b"three",)])
    assert [place.file for place in places] == [1, 2, 3]
    assert [len(payload) for _, payload in found(directory)] == [3, 3 * FILE, 5]


@pytest.mark.parametrize(("sync", "synced"), [(True, 2), (False, 0)])
def test_each_record_is_synced_unless_nothing_is(directory, monkeypatch, sync, synced):
    calls = []
    monkeypatch.setattr("os.fdatasync", calls.append)
    journal = Journal(directory, SALT, FILE, 0, sync=sync)
    journal.open()
    for sequence in (1, 2):
        journal.append(sequence, 0, [b"record"])
    journal.close()
    assert len(calls) == synced


def test_many_chunks_are_one_record(directory):
    write(directory, [[b"%d," % number for number in range(5000)]])
    assert found(directory) == [(1, b"".join(b"%d," % number for number in range(5000)))]


def test_the_kind_of_a_record_is_read_back(directory):
    journal = Journal(directory, SALT, FILE, 0)
    journal.open()
    journal.append(1, MOVED, [b"moved"])
    journal.close()
    assert [record.kind for record in read_records(directory, 1, SALT)] == [MOVED]


def test_a_torn_last_record_is_left_out(directory):
    write(directory, [(b"one",), (bytes(3 * BLOCK),)])
    overwrite(directory, 1, 2 * BLOCK, b"torn")
    assert found(directory) == [(1, b"one")]


def test_what_is_written_after_a_torn_record_follows_it(directory):
    write(directory, [(b"one",), (b"torn",)])
    overwrite(directory, 1, BLOCK + RECORD.size, b"X")
    write(directory, [(b"two",), (b"three",)], first=2)
    assert found(directory) == [(1, b"one"), (2, b"two"), (3, b"three")]


@pytest.mark.parametrize("at", [0, BLOCK + 4, BLOCK + RECORD.size])
def test_a_bad_record_with_a_valid_later_one_is_corruption(directory, at):
    write(directory, [(b"one",), (b"two",), (b"three",), (b"four",)])
    overwrite(directory, 1, at, b"\xff")
    with pytest.raises(CorruptJournal, match="no torn write does this"):
        found(directory)


def test_a_missing_file_in_the_middle_is_corruption(directory):
    write(directory, [(bytes(600_000),)] * 3)
    os.unlink(file_path(directory, 2))
    with pytest.raises(CorruptJournal, match="records 2 to 2 are bad or missing"):
        found(directory)
    assert [sequence for sequence, _ in found(directory, 3)] == [3]


def test_damage_before_the_replayed_part_does_not_matter(directory):
    write(directory, [(bytes(600_000),)] * 3)
    overwrite(directory, 1, 100, b"\xff")
    assert [sequence for sequence, _ in found(directory, 2)] == [2, 3]


def test_records_of_another_directory_are_not_taken_for_ours(directory):
    write(directory, [(b"one",)])
    assert scan_file(directory, 1, b"another salt....") == FileScan(1, 0, 0, (), broken=1)


def test_bytes_inside_an_entry_are_not_taken_for_a_record(directory, tmp_path):
    """A client can send bytes that look like a record, but it does not know the salt."""
    other = tmp_path / "other"
    other.mkdir()
    forged = Journal(str(other), b"a guess at a salt", FILE, 0)
    forged.open()
    forged.append(99, FRAMES, [b"forged"])
    forged.close()
    record = (other / "00000001.journal").read_bytes()[:BLOCK]
    write(directory, [(bytes(BLOCK - RECORD.size) + record * 3,)])
    assert scan_file(directory, 1, SALT).stray == ()


def test_a_recycled_file_gets_a_new_number_and_its_old_records_are_not_replayed(directory):
    journal = Journal(directory, SALT, FILE, 0)
    journal.open()
    for sequence in range(1, 7):
        journal.append(sequence, FRAMES, [b"%d" % sequence + bytes(400_000)])
    journal.recycle(1)
    journal.recycle(2)
    for sequence in range(7, 10):
        journal.append(sequence, FRAMES, [b"%d" % sequence + bytes(400_000)])
    journal.close()
    assert [sequence for sequence, _ in found(directory, 5)] == [5, 6, 7, 8, 9]
    assert 1 not in file_numbers(directory)


def test_a_disk_that_was_full_for_a_while_does_not_end_the_journal_later(directory, monkeypatch):
    journal = Journal(directory, SALT, FILE, 0)
    journal.open()
    with monkeypatch.context() as full_disk:
        full_disk.setattr(journal_files, "fill", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
        journal.append(1, FRAMES, [bytes(FILE * 2 // 3)])
        journal._files._maker.submit(bool).result()  # by then the spare file was tried
    assert os.listdir(directory) == ["00000001.journal"]
    journal.append(2, FRAMES, [bytes(FILE * 2 // 3)])
    journal.close()
    assert [scan.last for scan in (scan_file(directory, number, SALT) for number in file_numbers(directory))] == [1, 2]


@pytest.mark.parametrize(
    ("scans", "live", "continued"),
    [
        ([], {}, None),
        ([FileScan(1, 1, 6, (), 4096), FileScan(2, 7, 9, (), 8192)], {2: 50}, FileScan(2, 7, 9, (), 8192)),
        ([FileScan(1, 1, 9, (), 8192), FileScan(2, 0, 0, ())], {1: 50}, FileScan(2, 0, 0, ())),
        ([FileScan(1, 7, 9, (), 8192), FileScan(2, 1, 6, (), 4096)], {1: 50}, FileScan(2, 0, 0, ())),
        ([FileScan(2, 7, 8, (), 4096)], {2: 50}, None),
    ],
    ids=["none", "behind its last record", "empty", "old records only", "unreadable records that are needed"],
)
def test_where_a_journal_without_room_continues(scans, live, continued):
    assert plan_continued(scans, 9, live) == continued


def full_disk(monkeypatch, code=errno.ENOSPC):
    """From now on no file can be created."""
    monkeypatch.setattr(journal_files, "fill", Mock(side_effect=OSError(code, "no space")))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=["full", "over its quota"])
def test_on_a_full_disk_the_spare_file_is_written_and_then_none(directory, monkeypatch, code):
    journal = Journal(directory, SALT, FILE, 0)
    journal.open()
    journal.keep_reserve()
    full_disk(monkeypatch, code)
    journal.append(1, FRAMES, [bytes(FILE // 4)])
    assert journal.last_room is None
    assert journal.append(2, FRAMES, [bytes(FILE - BLOCK)]).file == 2
    assert journal.last_room == 0
    journal.check_room(0)
    with pytest.raises(DiskFull, match="there is no room for another journal file in "):
        journal.check_room(1)
    with pytest.raises(OSError, match="disk full: there is no room for another journal file"):
        journal.append(3, FRAMES, [b"more"])
    journal.close()
    assert [sequence for sequence, _ in found(directory)] == [1, 2]


def test_no_other_file_is_begun_while_the_index_has_no_room_for_the_flush_after_it(directory):
    journal = Journal(directory, SALT, FILE, 0)
    journal.open()
    for room, left in ((BLOCK, BLOCK), (2 * FILE, FILE)):
        journal.index_room = partial(int, room)
        assert journal.last_room == left
    with pytest.raises(DiskFull):
        journal.check_room(FILE + 1)
    journal.index_room = None
    assert journal.last_room is None
    journal.close()


def test_a_file_returned_on_a_full_disk_becomes_the_spare(directory, monkeypatch):
    journal = Journal(directory, SALT, FILE, 0)
    journal.open()
    journal.keep_reserve()
    full_disk(monkeypatch)
    for sequence in (1, 2):
        journal.append(sequence, FRAMES, [bytes(FILE - BLOCK)])
    journal.recycle(1)
    assert journal.last_room is None
    assert journal.append(3, FRAMES, [b"three"]).file == 3
    journal.close()


def test_a_start_on_a_full_disk_continues_after_the_last_record(directory, monkeypatch):
    write(directory, [(b"one",), (bytes(3 * BLOCK),)])
    overwrite(directory, 1, 2 * BLOCK, b"torn")
    full_disk(monkeypatch)
    for name in os.listdir(directory):
        if name.startswith("free"):
            os.unlink(os.path.join(directory, name))
    (last,) = scans(directory)
    journal = Journal(directory, SALT, FILE, 1)
    journal.open(last)
    assert journal.append(2, FRAMES, [b"two"]).offset == BLOCK + RECORD.size
    assert journal.last_room == FILE - 2 * BLOCK
    journal.close()
    assert found(directory) == [(1, b"one"), (2, b"two")]


def test_an_unreadable_sector_is_an_error_that_names_the_file(directory, monkeypatch):
    """A file in memory would end the process by SIGBUS."""
    write(directory, [(b"one",), (bytes(3 * BLOCK),), (b"three",)])
    read = os.pread

    def bad_sector(file, length, at):
        if at <= 2 * BLOCK < at + length:
            raise OSError(errno.EIO, "Input/output error")
        return read(file, length, at)

    monkeypatch.setattr(journal_module.os, "pread", bad_sector)
    with pytest.raises(OSError, match="journal file 1 cannot be read at 4112: Input/output error"):
        scan_file(directory, 1, SALT)
    with pytest.raises(OSError, match="journal file 1"):
        list(read_records(directory, 1, SALT))


def test_a_file_truncated_while_it_is_read_is_an_error(directory):
    write(directory, [(b"one",), (b"two",)])
    records = read_records(directory, 1, SALT)
    assert next(records).payload == b"one"
    os.truncate(file_path(directory, 1), BLOCK)
    with pytest.raises(OSError, match="journal file 1 was cut off at 4096"):
        next(records)


def test_an_empty_directory_has_nothing_to_replay(directory):
    assert plan_replay(scans(directory), 1).last == 0


@given(st.lists(st.integers(0, 9000), min_size=1, max_size=12), st.data())
def test_a_cut_anywhere_in_the_last_write_leaves_everything_before_it(tmp_path_factory, sizes, data):
    directory = str(tmp_path_factory.mktemp("journal"))
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    *_, last = write(directory, [(payload,) for payload in payloads])
    start, end = last.offset - RECORD.size, last.offset + sizes[-1]
    cut = data.draw(st.integers(start, end - 1))
    if any(Path(file_path(directory, last.file)).read_bytes()[cut:end]):
        overwrite(directory, last.file, cut, bytes(end - cut))
        expected = payloads[:-1]
    else:
        expected = payloads
    assert [payload for _, payload in found(directory)] == expected


def test_plans_cover_every_record_or_refuse():
    chains = [FileScan(3, 21, 30, ()), FileScan(1, 1, 10, ()), FileScan(2, 11, 20, ())]
    assert plan_replay(chains, 15).files == (2, 3)
    assert plan_replay(chains, 31).files == ()
    assert plan_replay(chains, 40).last == 39
    with pytest.raises(CorruptJournal):
        plan_replay([chains[0], chains[1]], 5)
    with pytest.raises(CorruptJournal):
        plan_replay([FileScan(1, 1, 10, (12,))], 5)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_journal_goes_on_once_the_system_has_a_file_for_it_again(directory, monkeypatch, step):
    """`step`: the time that a file is opened, while the next journal file is made, at which none is left."""
    journal, opened = Journal(directory, SALT, FILE, 0), []
    journal.open()
    journal.append(1, FRAMES, [bytes(FILE // 4)])
    open_file = os.open

    def none_left(path, flags, *mode):
        opened.append(path)
        if len(opened) == step:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return open_file(path, flags, *mode)

    monkeypatch.setattr(open_files, "_PAUSE_S", 0.0)
    monkeypatch.setattr(os, "open", none_left)
    places = [journal.append(sequence, FRAMES, [bytes(FILE // 4)]) for sequence in (2, 3, 4)]
    monkeypatch.undo()
    journal.close()
    assert places[-1].file == 2
    assert [sequence for sequence, _ in found(directory)] == [1, 2, 3, 4]
    assert len(opened) > step


@pytest.mark.parametrize(
    "scan", [FileScan(7, 1, 3, ()), FileScan(7, 0, 0, ()), FileScan(7, 1, 2, (), broken=3)], ids=str
)
def test_a_file_that_ends_before_the_last_record_that_the_index_has_has_not_reached_it(scan):
    assert not has_reached([scan], 5, 7, {7: 10})


@pytest.mark.parametrize(
    ("scan", "live"),
    [
        (FileScan(7, 1, 4, ()), {7: 10}),
        (FileScan(7, 1, 9, ()), {7: 10}),
        (FileScan(7, 1, 1, (3, 4)), {7: 10}),  # a record before is damaged
        (FileScan(7, 1, 3, (), broken=4), {7: 10}),  # it is damaged itself
        (FileScan(7, 0, 0, ()), {}),  # nothing was written to it yet
        (FileScan(8, 0, 0, ()), {8: 10}),
    ],
)
def test_a_file_with_the_last_record_that_the_index_has_has_reached_it(scan, live):
    assert has_reached([scan], 5, 7, live)


def test_a_journal_holds_a_record_that_begins_no_file(directory):
    journal = Journal(directory, SALT, FILE, 0)
    assert not journal.holds(1)
    journal.open()
    assert journal.holds(FILE - RECORD.size)
    assert not journal.holds(FILE - RECORD.size + 1)
    journal.append(1, FRAMES, [bytes(FILE - BLOCK - RECORD.size)])
    assert journal.holds(BLOCK - RECORD.size)
    assert not journal.holds(BLOCK - RECORD.size + 1)
    journal.close()
