"""What takes long is skipped by name where that was asked for, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs.slow_tests import REASON

ROOT = Path(__file__).resolve().parents[4]
CONFTEST = "from tests.support.runs.slow_tests import pytest_addoption, pytest_collection_modifyitems\n"
TESTS = """
import pytest

@pytest.mark.slow
def test_at_length():
    pass

def test_in_short():
    pass
"""


@pytest.mark.parametrize(("options", "outcome"), [(("--skip-slow",), "1 passed, 1 skipped"), ((), "2 passed")])
def test_slow_tests_are_skipped_where_that_is_asked_for(tmp_path, options, outcome):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "test_two.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:mledger", *options, "."]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout
    assert (REASON in done.stdout) is bool(options)


def test_ci_skips_none():
    assert "--skip-slow" not in (ROOT / ".ci/run").read_text()
