"""A seed is one history, and its replay shows it."""

import os
import subprocess
import sys

import pytest

from tests.sim.schedule import Schedule, Step, plan_plain
from tests.sim.simulation import simulate


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


@pytest.mark.parametrize("seed", range(6))
def test_an_owner_whose_next_session_is_with_a_lagging_server_goes_on(seed):
    """Which sessions are with that server, the seed decides."""
    steps = (
        Step(0.0, "owner-0", "open"),
        Step(0.2, "owner-1", "lag", 0, 0.5),
        Step(0.4, "owner-1", "open"),
        Step(0.45, "owner-1", "client session expires"),
        Step(0.5, "owner-1", "append", 13),
    )
    assert simulate(Schedule(str(seed), (2, 2, 2), 3, steps, topics=True)).violation == ""


@pytest.mark.parametrize("seed", ["57009", "134125", "137862"])
def test_what_the_checks_once_took_for_a_violation_holds(seed):
    """Two sessions that end in a takeover; appends that failed for want of bookies; an opening that waits for a server
    that lags, while another owner opens the topic.
    """
    assert simulate(plan_plain(seed)).violation == ""
