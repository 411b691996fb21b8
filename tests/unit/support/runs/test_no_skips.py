"""In CI, what may not be skipped fails instead."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs.no_skips import NEVER_SKIPPED

ROOT = Path(__file__).resolve().parents[4]
SPARK = re.compile(r"^from tests\.support\.snapshots\.(spark|spark_cluster|spark_connect) import", re.MULTILINE)
CONFTEST = "from tests.support.runs.no_skips import pytest_runtest_makereport\n"
SKIPPED = """
import pytest

@pytest.mark.{marker}
def test_{marker}():
    pytest.skip("no tool")
"""


@pytest.mark.parametrize(("in_ci", "outcome"), [("1", "failed"), ("", "skipped")])
def test_a_marked_test_that_lacks_its_tool_fails_in_ci_only(tmp_path, in_ci, outcome):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_skipped.py").write_text("".join(SKIPPED.format(marker=each) for each in NEVER_SKIPPED))
    options = ("-q", "-c", os.devnull, "--rootdir", tmp_path, "-p", "no:mledger")
    environment = os.environ | {"MLEDGER_CI": in_ci, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", *options, tmp_path]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert f"{len(NEVER_SKIPPED)} {outcome}" in done.stdout, done.stdout


def test_what_uses_spark_is_marked():
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if SPARK.search(file.read_text())]
    assert files
    assert [str(file) for file in files if "pytest.mark.spark" not in file.read_text()] == []
