"""kill -9 of each of four bookies, again and again, under one owner's load (M5, Q2, Q8)."""

import pytest

from tests.faults.aftermath import check_everything
from tests.faults.history import TopicHistory
from tests.faults.recorder import OwnerProcess
from tests.support.aio import run

KILLS_OF_EACH = 3
BETWEEN = 700


@pytest.mark.timeout(1800)
def test_no_acknowledged_entry_is_lost_when_every_bookie_dies_in_turn(cluster_url, bookies, tmp_path):
    bookies.start(4)
    history = TopicHistory()
    owner = OwnerProcess(history, cluster_url, tmp_path / "owner.log")
    try:
        for number in range(4 * KILLS_OF_EACH):
            target = history.owner.acked_entries + BETWEEN
            owner.until(lambda seen, target=target: seen.acked_entries >= target)
            bookies.kill(number % 4)
            target = history.owner.acked_entries + BETWEEN
            owner.until(lambda seen, target=target: seen.acked_entries >= target)
            bookies.restart(number % 4)
        owner.kill_under_way()
    finally:
        owner.close()
    # a full ledger that cannot be followed for lack of bookies takes all that the owner appends meanwhile
    run(check_everything(history, cluster_url))
