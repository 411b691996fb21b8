"""What a run leaves of its directories."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
CONFTEST = """
from tests.support.runs import directories

def pytest_configure(config):
    config.pluginmanager.register(directories)
"""
TESTS = """
import pytest

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")

@pytest.fixture(params=[1, 2])
def numbered(request):
    return request.getfixturevalue("shared")

@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wide")
    yield directory
    (directory / "written at teardown").touch()

@pytest.fixture
def server(tmp_path):
    yield tmp_path
    (tmp_path / "written at teardown").touch()

@pytest.fixture
def chosen(request):
    return request.getfixturevalue("server")

def test_one(files, chosen, numbered, tmp_path):
    assert numbered.exists()
    (tmp_path / "file").touch()
    assert {result}
"""


@pytest.mark.parametrize(
    ("passes", "kept"), [(True, set()), (False, {"test_one_1_0", "test_one_2_0", "shared0", "wide0"})]
)
def test_only_a_failure_keeps_its_directories(tmp_path, passes, kept):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS.format(result=passes))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\ntmp_path_retention_policy = failed\n")
    base = tmp_path / "base"
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={base}", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == (0 if passes else 1), run.stdout + run.stderr
    assert {entry.name for entry in base.iterdir() if not entry.is_symlink()} == kept
