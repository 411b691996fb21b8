"""A test run whose worker ends in the middle."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
CONFTEST = """
from tests.support.runs.schedule import LongestFirst

def pytest_xdist_make_scheduler(config, log):
    return LongestFirst(config, log)
"""
PASSES = "def test_one():\n    pass\n\ndef test_two():\n    open(__file__ + '.done', 'w').close()\n"
FILES = 6
ENDS_ITS_WORKER = """
import glob
import os
import time

def test_before():
    while len(glob.glob("*.done")) < %d:
        time.sleep(0.01)

def test_that_ends_its_worker():
    os._exit(74)

def test_after():
    pass
"""


def run_of(folder: Path, others: int) -> str:
    """What pytest prints of a run in which a test ends its worker after that many other files."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_ends.py").write_text(ENDS_ITS_WORKER % others)
    for number in range(FILES):
        (folder / f"test_passes_{number}.py").write_text(PASSES)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "."]
    environment = {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return ran.stdout


@pytest.mark.parametrize("others", [0, FILES], ids=["others are left", "the other worker has ended"])
def test_a_run_ends_with_the_test_that_ended_its_worker_as_its_only_failure(tmp_path, others):
    printed = run_of(tmp_path, others)
    assert "1 failed, 14 passed" in printed.splitlines()[-1], printed
    assert "test_that_ends_its_worker" in printed
