"""Files that a journal has ready."""

import os
import threading

import pytest

from mledger.bookie.server.storage.directories.journal_files import JournalFiles

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
