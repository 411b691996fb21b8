"""`mledger snapshot ask` in a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.support.aio import HANG_S
from tests.support.cli import ROOT
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import NOW


@pytest.mark.parametrize("command", [("snapshot", "ask"), ("report",)])
def test_a_process_that_has_asked_ends_without_a_word_on_stderr(tmp_path, command):
    """DuckDB reports what its objects leave at the end of the interpreter."""
    place = write_snapshot(tmp_path, "now", NOW, tenants=[{"tenant": "t"}])
    rest = ("storage_by_tenant",) if "ask" in command else ("--to", str(tmp_path / "report.html"))
    words = [sys.executable, "-m", "mledger.cli.main", *command, str(place), *rest]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stderr) == (0, "")
