"""A test run whose worker ends in the middle."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
CONFTEST = """
from tests.support.runs.schedule import LongestFirst

def pytest_xdist_make_scheduler(config, log):
    return LongestFirst(config, log)
"""
PASSES = "def test_one():\n    pass\n\ndef test_two():\n    pass\n"
ENDS_ITS_WORKER = """
import os

def test_before():
    pass

def test_that_ends_its_worker():
    os._exit(74)

def test_after():
    pass
"""


def test_a_run_ends_with_the_test_that_ended_its_worker_as_its_only_failure(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_ends.py").write_text(ENDS_ITS_WORKER)
    for number in range(6):
        (tmp_path / f"test_passes_{number}.py").write_text(PASSES)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "."]
    ran = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False
    )
    assert "1 failed, 14 passed" in ran.stdout.splitlines()[-1], ran.stdout
    assert "test_that_ends_its_worker" in ran.stdout
