"""kill -9 of the owner, fourteen times in a row under load, a bookie down half of the time (Q5, M5, C3, C8, R10)."""

import pytest

from tests.faults.aftermath import check_everything
from tests.faults.owner import CHANGING
from tests.faults.rounds import STEPS, Rounds
from tests.support.aio import run

KILLS = 14


@pytest.mark.timeout(1800)
def test_nothing_is_lost_repeated_or_out_of_order_over_many_kills(cluster_url, bookies, tmp_path):
    bookies.start(4)
    rounds = Rounds(cluster_url, bookies, tmp_path)
    steps = iter(STEPS)
    for number in range(KILLS):
        down = number // 2 % 4 if number % 2 else None
        step = next(steps, None) if number % 2 == 0 or number > 10 else None
        if step is None:
            rounds.kill_somewhere(down)
        else:
            rounds.kill_at(step, None if step == CHANGING else down)
    assert set(rounds.killed_at) == set(STEPS)
    run(check_everything(rounds.history, rounds.url))
