"""Thousands of schedules hold what they promise: those that come next in the record of seeds (accumulated.py)."""

import os
import subprocess
import sys

import pytest

from tests.sim.__main__ import HASH_SEED
from tests.sim.accumulated import next_seed, read

SCHEDULES = 1_200
_GROUP = 300
_QUICK = 2  # groups that are not slow


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "group",
    [pytest.param(group, marks=[pytest.mark.slow] if group >= _QUICK else []) for group in range(SCHEDULES // _GROUP)],
)
def test_whatever_goes_wrong_nothing_is_violated(group):
    first = next_seed(read()) + group * _GROUP
    options = ["--first", str(first), "--schedules", str(_GROUP), "--processes", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
    )
    assert done.returncode == 0, done.stdout + done.stderr  # with the command that replays each seed
    assert f"seeds {first} to {first + _GROUP - 1} " in done.stdout
