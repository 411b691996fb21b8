"""What a run leaves of its directories."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
CONFTEST = "from tests.support.runs.directories import pytest_fixture_setup, tmp_path_factory\n"
TESTS = """
import pytest

@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wide")
    yield directory
    (directory / "written at teardown").touch()

def test_one(files, tmp_path):
    (tmp_path / "file").touch()
    assert {result}
"""


@pytest.mark.parametrize(("passes", "kept"), [(True, set()), (False, {"test_one0", "wide0"})])
def test_only_a_failure_keeps_its_directories(tmp_path, passes, kept):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS.format(result=passes))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\ntmp_path_retention_policy = failed\n")
    base = tmp_path / "base"
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={base}", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == (0 if passes else 1), run.stdout + run.stderr
    assert {entry.name for entry in base.iterdir() if not entry.is_symlink()} == kept
