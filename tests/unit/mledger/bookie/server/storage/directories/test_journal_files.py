"""Files that a journal has ready."""

import errno
import os
import threading

import pytest

from mledger.bookie.server.storage.directories import journal_files
from mledger.bookie.server.storage.directories.journal_files import JournalFiles, RoomHolder, release_half

SIZE = 1 << 20


@pytest.fixture
def synced(monkeypatch):
    """What was synced while the test ran."""
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    return calls


@pytest.mark.parametrize("sync", [True, False])
def test_a_new_file_has_its_room_and_is_synced_only_where_the_journal_is(tmp_path, synced, sync):
    files = JournalFiles(str(tmp_path), SIZE, sync=sync)
    path = tmp_path / "1.journal"
    assert files.take(str(path)) == SIZE
    files.close()
    assert path.read_bytes() == bytes(SIZE)
    assert path.stat().st_blocks * 512 >= SIZE
    assert bool(synced) is sync


def test_a_file_is_prepared_where_the_system_has_no_more_threads(tmp_path, monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    files = JournalFiles(str(tmp_path), SIZE, sync=False)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    files.prepare()
    files.close()
    assert [path.name for path in tmp_path.iterdir()] == ["free-1.journal"]


def test_what_a_killed_process_left_of_the_space_that_it_reserved_is_removed(tmp_path):
    (tmp_path / "reserve.journal.new").write_bytes(bytes(SIZE))
    JournalFiles(str(tmp_path), SIZE).close()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def refuse(monkeypatch):
    """Makes the system refuse room for a reason; returns the sizes that were asked for."""

    def start(reason):
        def allocate(_file, _start, size):
            asked.append(size)
            raise OSError(reason, os.strerror(reason))

        asked = []
        monkeypatch.setattr(os, "posix_fallocate", allocate)
        return asked

    return start


def test_room_that_a_quota_refuses_is_not_asked_for_again_at_once(tmp_path, refuse, monkeypatch, caplog):
    monkeypatch.setattr(journal_files, "free_bytes", lambda _: 1 << 40)  # whatever others free on this disk meanwhile
    asked, files = refuse(errno.EDQUOT), JournalFiles(str(tmp_path), SIZE)
    for _ in range(3):
        files.keep_reserve()
    files.close()
    assert asked == [SIZE]
    assert caplog.text.count("reserve_missing") == 1
    assert not list(tmp_path.iterdir())


def test_room_is_asked_for_again_once_as_much_is_freed_or_some_minutes_later(tmp_path, refuse, monkeypatch, caplog):
    asked, holder, tries = refuse(errno.EDQUOT), RoomHolder(str(tmp_path / "held"), SIZE), []
    for free, seconds in ((0, 300.0), (SIZE - 1, 300.0), (SIZE, 300.0), (SIZE, 300.0), (SIZE, 0.0)):
        monkeypatch.setattr(journal_files, "free_bytes", lambda _, free=free: free)
        monkeypatch.setattr(journal_files, "HOLD_AGAIN_S", seconds)
        assert not holder.hold()
        tries.append(len(asked))
    assert tries == [1, 1, 2, 2, 3]
    assert caplog.text.count("reserve_missing") == 1
    monkeypatch.undo()
    monkeypatch.setattr(journal_files, "HOLD_AGAIN_S", 0.0)
    assert holder.hold()
    assert (tmp_path / "held").stat().st_size == SIZE


def test_room_that_is_refused_for_another_reason_is_asked_for_again_at_once(tmp_path, refuse):
    asked, holder = refuse(errno.EIO), RoomHolder(str(tmp_path / "held"), SIZE)
    assert [holder.hold(), holder.hold()] == [False, False]
    assert asked == [SIZE, SIZE]


def test_room_that_others_took_and_left_again_is_asked_for_again_at_once(tmp_path, refuse, monkeypatch):
    asked, holder = refuse(errno.ENOSPC), RoomHolder(str(tmp_path / "held"), SIZE)
    looks = iter((3 * SIZE, 0, 3 * SIZE, 3 * SIZE))  # before and after each try
    monkeypatch.setattr(journal_files, "free_bytes", lambda _: next(looks))
    assert [holder.hold(), holder.hold()] == [False, False]
    assert asked == [SIZE, SIZE]


def test_half_of_the_reserve_is_released_once_until_all_of_it_is_reserved_again(tmp_path):
    reserve, released = tmp_path / "reserve.journal", [release_half(str(tmp_path), SIZE)]
    files = JournalFiles(str(tmp_path), SIZE)
    for _ in range(2):
        files.keep_reserve()
        released += [release_half(str(tmp_path), SIZE), release_half(str(tmp_path), SIZE)]
        assert reserve.stat().st_size == reserve.stat().st_blocks * 512 == SIZE // 2
    files.close()
    assert released == [False, True, False, True, False]


def test_the_half_that_is_left_of_the_reserve_is_written_when_there_is_no_other_file(tmp_path, monkeypatch):
    files = JournalFiles(str(tmp_path), SIZE)
    files.keep_reserve()
    release_half(str(tmp_path), SIZE)
    monkeypatch.setattr(journal_files, "free_bytes", lambda _: 0)
    files = JournalFiles(str(tmp_path), SIZE, lambda: 0)
    assert files.take(str(tmp_path / "00000002.journal")) == SIZE // 2
    assert files.last
    files.close()
