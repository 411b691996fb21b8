"""CI runs failed tests once more, alone: it reports those that pass then, and fails if one fails again."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
UNSTEADY = """
import pathlib

def test_steady():
    pass

def test_unsteady():
    ran = pathlib.Path("ran")
    print("ran before" if ran.exists() else "ran first")
    if not ran.exists():
        ran.touch()
        raise AssertionError("not the first time")
"""
BROKEN = """
def test_broken():
    raise AssertionError("never")
"""


def twice(directory, *arguments, **files):
    """CI's run of these files."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "MLEDGER"))}
    return subprocess.run(
        [sys.executable, "-m", "tests.support.runs.second_try", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tests_that_pass_alone_are_listed_with_both_outputs_and_the_run_passes(tmp_path):
    done = twice(tmp_path, unsteady=UNSTEADY)
    assert done.returncode == 0, done.stdout
    listed = done.stdout.partition("unsteady tests: failed at first, passed alone")[2]
    first, alone = listed.partition("---- alone")[::2]
    assert "UNSTEADY test_unsteady.py::test_unsteady" in first
    assert "not the first time" in first
    assert "ran first" in first
    assert "ran before" in alone
    assert "test_steady" not in listed
    assert "1 passed" in done.stdout.splitlines()[-1]


def test_a_test_that_fails_again_fails_the_run(tmp_path):
    done = twice(tmp_path, unsteady=UNSTEADY, broken=BROKEN)
    assert done.returncode == 1
    assert "UNSTEADY test_broken" not in done.stdout
    assert "UNSTEADY test_unsteady.py::test_unsteady" in done.stdout
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_failures_on_workers_are_run_again_in_one_process(tmp_path):
    done = twice(tmp_path, "-n", "2", unsteady=UNSTEADY, broken=BROKEN)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]
    assert "UNSTEADY test_unsteady.py::test_unsteady" in done.stdout


def test_a_run_without_failures_runs_once(tmp_path):
    done = twice(tmp_path, steady="def test_steady():\n    pass\n")
    assert done.returncode == 0
    assert "once more" not in done.stdout


def test_a_file_that_cannot_be_collected_is_not_run_again(tmp_path):
    done = twice(tmp_path, wrong="import nothing_of_that_name\n")
    assert done.returncode == 2
    assert "once more" not in done.stdout
