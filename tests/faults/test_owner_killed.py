"""kill -9 of the owner, twenty times in a row under load, a bookie down half of the time (Q5, M5, C3, C8, R10)."""

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.aftermath import check_everything
from tests.faults.books import Books
from tests.faults.owner import CHANGING, CONFIG, RECOVERING
from tests.faults.recorder import OwnerProcess
from tests.support.aio import run

IN_ROLLOVER = ("create ledger", "list ledger", "ledger listed", "close ledger")
IN_CURSOR_SWITCH = ("name cursor ledger", "cursor ledger named")
STEPS = (*IN_ROLLOVER, CHANGING, *IN_CURSOR_SWITCH, RECOVERING)
KILLS = 20


class Rounds:
    """One owner after another on a cluster of four bookies."""

    def __init__(self, url: str, bookies, directory: Path) -> None:
        self.url, self.bookies, self.directory = url, bookies, directory
        self.books, self.chance = Books(), random.Random(20)
        self.killed_at: Counter[str] = Counter()

    def owner(self, pause_at: str = "") -> OwnerProcess:
        """Start the next owner."""
        return OwnerProcess(self.books, self.url, self.directory / "owner.log", pause_at)

    def kill_somewhere(self, down: int | None) -> None:
        """An owner under load, killed at a random moment; bookie `down` dies under it."""
        owner = self.owner()
        try:
            owner.until(lambda seen: seen.acked_entries >= 500)
            if down is not None:
                self.bookies.kill(down)
            target = self.books.owner.acked_entries + self.chance.randrange(1, 8000)
            owner.until(lambda seen: seen.acked_entries >= target)
            owner.kill_under_way()
        finally:
            owner.close()
        self._back(down)

    def kill_at(self, step: str, down: int | None) -> None:
        """An owner killed in the middle of `step`."""
        owner = self.owner(step)
        try:
            if step == CHANGING:
                self._kill_one_of_the_ensemble(owner)
            owner.kill_at(step)
        finally:
            owner.close()
        self.killed_at[step] += 1
        self._back(down)

    def _kill_one_of_the_ensemble(self, owner: OwnerProcess) -> None:
        """Kill one bookie after another until the owner stands still before it replaces one."""
        owner.acknowledge_more(500)
        for number in itertools.cycle(range(len(self.bookies))):
            self.bookies.kill(number)
            target = self.books.owner.acked_entries + 2 * CONFIG.max_entries_per_ledger
            owner.until(lambda seen, target=target: seen.at == CHANGING or seen.acked_entries >= target)
            self.bookies.restart(number)
            if self.books.owner.at == CHANGING:
                return

    def _back(self, down: int | None) -> None:
        if down is not None and not self.bookies[down].running:
            self.bookies.restart(down)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_is_lost_double_or_out_of_order_over_twenty_kills(cluster_url, bookies, tmp_path):
    bookies.start(4)
    rounds = Rounds(cluster_url, bookies, tmp_path)
    steps = iter(STEPS)
    for number in range(KILLS):
        down = number // 2 % 4 if number % 2 else None
        step = next(steps, None) if number % 2 == 0 or number > 10 else None
        if step is None:
            rounds.kill_somewhere(down)
        else:
            rounds.kill_at(step, down)
    assert set(rounds.killed_at) == set(STEPS)
    run(check_everything(rounds.books, rounds.url), timeout=120)
