"""Simulated clusters hold what they promise, and a seed is one history."""

import os
import subprocess
import sys

import pytest

from tests.sim.simulation import run_seed

SEEDS = 240
_GROUP = 30


@pytest.mark.parametrize("first", range(0, SEEDS, _GROUP))
def test_whatever_goes_wrong_nothing_is_violated(first):
    outcomes = [run_seed(str(seed)) for seed in range(first, first + _GROUP)]
    assert [f"seed {each.schedule.seed}: {each.violation}" for each in outcomes if each.violation] == []


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
