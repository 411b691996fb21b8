"""Temporary directories of standalones: removed by their owner, or by the next one's start."""

import os
import signal
import subprocess
import sys

import pytest

from mledger.standalone.ephemeral_directory import PREFIX, EphemeralDirectory, remove_abandoned

OWNER = """
import os, signal
from mledger.standalone.ephemeral_directory import EphemeralDirectory
directory = EphemeralDirectory()
open(os.path.join(directory.path, "data"), "w").close()
print(directory.path, flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """An empty place for temporary directories, of this test and of its processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def owner():
    """Another process with a directory, and the directory."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_directory_is_removed_with_its_files_once(temporary):
    directory = EphemeralDirectory()
    open(os.path.join(directory.path, "data"), "w").close()
    directory.remove()
    assert os.listdir(temporary) == []
    directory.remove()


def test_the_next_start_removes_what_a_killed_process_left(temporary, owner):
    process, left = owner
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert os.listdir(left) == ["data"]
    directory = EphemeralDirectory()
    assert os.listdir(temporary) == [os.path.basename(directory.path)] != [os.path.basename(left)]
    directory.remove()


def test_the_directory_of_a_living_process_stays(owner):
    _, living = owner
    EphemeralDirectory().remove()
    assert os.listdir(living) == ["data"]


def test_other_directories_and_links_stay(temporary, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    os.symlink(other, temporary / f"{PREFIX}link")
    (temporary / "mledger-standalone-kept").mkdir()
    remove_abandoned(str(temporary))
    assert sorted(os.listdir(temporary)) == [f"{PREFIX}link", "mledger-standalone-kept"]
    assert other.is_dir()


def test_a_place_that_is_not_there_has_nothing_to_remove(temporary):
    remove_abandoned(str(temporary / "missing"))


def test_a_forked_process_that_ends_leaves_its_parent_s_directory():
    made = EphemeralDirectory()
    child = os.fork()
    if child == 0:
        made.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(made.path)
    made.remove()
    assert not os.path.exists(made.path)
