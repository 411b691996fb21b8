"""A seed is one history, and its replay shows it."""

import os
import subprocess
import sys

import pytest


def _replay(seed: str, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--seed", seed]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed}
    )
    return done.stdout


@pytest.mark.parametrize("seed", ["3", "45"], ids=["ledgers", "topic"])
def test_a_seed_replays_to_the_same_history_in_another_process(seed):
    assert _replay(seed, "1") == _replay(seed, "random")


def test_a_replay_prints_the_schedule_the_history_and_the_outcome():
    lines = _replay("3", "0").splitlines()
    assert lines[0].startswith("seed 3, ensemble, write and ack quorum (")
    assert any("ledger 0: 0 to" in line and "acknowledged" in line for line in lines)
    assert lines[-1] == "everything held"
