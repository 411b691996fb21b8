"""The demo removes what an earlier demo left, and nothing of anyone else's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.directory import DirectoryNotFree, claimed, empty
from mledger.standalone.directory import StandaloneDirectory

ROOT = Path(__file__).parents[3]


@pytest.fixture
def directory(tmp_path):
    """The directory of an earlier demo."""
    directory = tmp_path / "demo data"
    with claimed(directory):
        (directory / "bookie-1").mkdir()
        (directory / "cluster.json").write_text("{}")
    return directory


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_what_an_earlier_demo_left_is_removed(directory):
    with claimed(directory):
        empty(directory)
    assert names(directory) == ["demo.lock"]


def test_what_somebody_else_made_stays(tmp_path):
    (tmp_path / "cluster.json").write_text("{}")
    with (
        pytest.raises(DirectoryNotFree, match=f"{tmp_path} holds something that the demo did not make: name another"),
        claimed(tmp_path),
    ):
        pass
    assert names(tmp_path) == ["cluster.json"]


def test_one_demo_runs_at_a_time(directory):
    with claimed(directory):
        command = [sys.executable, "-m", "demo", "--dir", str(directory)]
        second = subprocess.run(command, cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True)
    assert second.returncode == 1
    assert second.stdout == (
        f"\ndemo failed: {directory}: another demo runs here: wait for it, or name another --dir\n"
    )
    assert names(directory) == ["bookie-1", "cluster.json", "demo.lock"]


def test_the_data_of_a_standalone_that_runs_on_it_stays(directory):
    standalone = StandaloneDirectory(str(directory / "standalone"))
    with claimed(directory), pytest.raises(DirectoryNotFree, match="a standalone runs on the earlier demo's data"):
        empty(directory)
    standalone.close()
    assert names(directory) == ["bookie-1", "cluster.json", "demo.lock", "standalone"]
