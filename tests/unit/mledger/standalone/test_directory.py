"""The directory of a standalone: one process at a time, and nobody else's."""

import errno
import os

import pytest

from mledger.metastore.rocksdb.directory import MetadataDirectory
from mledger.standalone.directory import StandaloneDirectory, plan_bookies
from mledger.standalone.errors import StandaloneError


def test_a_directory_is_created_and_has_one_user_at_a_time(tmp_path):
    path = tmp_path / "data"
    first = StandaloneDirectory(str(path))
    with pytest.raises(StandaloneError, match=f"process {os.getpid()} runs a standalone on this directory: stop it"):
        StandaloneDirectory(str(path))
    first.close()
    StandaloneDirectory(str(path)).close()
    assert path.is_dir()


def test_a_temporary_directory_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    directory = StandaloneDirectory()
    os.makedirs(directory.bookie(1))
    assert [os.path.join(tmp_path, name) for name in os.listdir(tmp_path)] == [directory.path]
    directory.close()
    assert os.listdir(tmp_path) == []


def test_the_directory_of_mledger_up_is_refused(tmp_path):
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(StandaloneError, match=f"start that with `mledger up --dir {tmp_path}`"):
        StandaloneDirectory(str(tmp_path))
    assert os.listdir(tmp_path) == ["cluster.json"]


def test_a_file_is_no_directory(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(StandaloneError, match="cannot be used: "):
        StandaloneDirectory(str(path))


def test_wiping_removes_what_the_parts_hold_and_no_other_file(tmp_path):
    directory = StandaloneDirectory(str(tmp_path))
    (tmp_path / "disk").mkdir()
    (tmp_path / "bookie-2").symlink_to(tmp_path / "disk")
    for name in ("metadata/store/CURRENT", "bookie-1/BOOKIE", "disk/BOOKIE", "notes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    directory.wipe()
    directory.close()
    assert [path.name for path in sorted(tmp_path.rglob("*")) if not path.is_dir()] == ["notes", "standalone.lock"]


def test_wiping_removes_nothing_where_a_part_has_a_server_of_its_own(tmp_path):
    directory = StandaloneDirectory(str(tmp_path))
    for name in ("bookie-1", "metadata"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    served = MetadataDirectory(str(tmp_path / "metadata"))
    with pytest.raises(StandaloneError, match=f"{tmp_path / 'metadata'}: another process uses it: stop that"):
        directory.wipe()
    assert os.listdir(tmp_path / "bookie-1") == os.listdir(tmp_path / "metadata") == ["file"]
    served.unlock()
    directory.close()


def test_bookies_are_counted_by_their_directories(tmp_path):
    directory = StandaloneDirectory(str(tmp_path))
    assert directory.bookies == 0
    for name in ("bookie-1", "bookie-12", "bookie-0", "bookie-x", "metadata"):
        os.mkdir(tmp_path / name)
    assert directory.bookies == 12
    directory.close()


@pytest.mark.parametrize(("asked", "known", "planned"), [(None, 0, 1), (None, 3, 3), (2, 3, 3), (3, 1, 3)])
def test_bookies_that_were_there_are_started_whatever_is_asked(asked, known, planned):
    assert plan_bookies(asked, known) == planned


def test_a_full_disk_is_named_and_leaves_no_lock(tmp_path, monkeypatch):
    def full(file, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", full)
        with pytest.raises(StandaloneError, match=f"{tmp_path}: cannot be used: No space left on device"):
            StandaloneDirectory(str(tmp_path))
    StandaloneDirectory(str(tmp_path)).close()
