"""Only files of the project are tracked, and none is large: data of a trial would stay in the history for good."""

import subprocess
from pathlib import Path

FOLDERS = {
    ".ci",
    "bench",
    "demo",
    "deploy",
    "docs",
    "mledger",
    "proto",
    "pyspark_mledger",
    "pytest_mledger",
    "tests",
    "tools",
}
MOST_BYTES = 400 << 10
LARGER = {"tools/pip-26.3-py3-none-any.whl"}


def tracked_files():
    found = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True)
    return [Path(name) for name in found.stdout.decode().split("\0") if name]


def test_the_project_has_no_folder_that_nobody_named():
    assert {file.parts[0] for file in tracked_files() if len(file.parts) > 1} == FOLDERS


def test_no_tracked_file_is_large():
    large = {str(file) for file in tracked_files() if file.exists() and file.stat().st_size > MOST_BYTES}
    assert large == LARGER
