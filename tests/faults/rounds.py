"""Owners one after another, each killed somewhere, on a cluster whose bookies die meanwhile."""

import itertools
import random
from collections import Counter
from pathlib import Path

from tests.faults.history import TopicHistory
from tests.faults.owner import CHANGING, CONFIG, RECOVERING, OwnerLoad
from tests.faults.recorder import OwnerProcess
from tests.support.bookies.processes import BookieProcesses

IN_ROLLOVER = ("create ledger", "list ledger", "ledger listed", "close ledger")
IN_CURSOR_SWITCH = ("name cursor ledger", "cursor ledger named")
STEPS = (*IN_ROLLOVER, CHANGING, *IN_CURSOR_SWITCH, RECOVERING)


class Rounds:
    """One owner after another on one cluster."""

    def __init__(self, url: str, bookies: BookieProcesses, directory: Path, seed: int = 20) -> None:
        self.url, self.bookies, self.directory = url, bookies, directory
        self.history, self.rng = TopicHistory(), random.Random(seed)
        self.killed_at: Counter[str] = Counter()

    def owner(
        self, pause_at: str = "", load: OwnerLoad | None = None, beside: OwnerProcess | None = None
    ) -> OwnerProcess:
        """Start the next owner; `beside` is one that still lives."""
        log = self.directory / f"owner-{len(self.history.owners) % 2}.log"
        return OwnerProcess(self.history, self.url, log, pause_at, load, beside)

    def kill_somewhere(self, down: int | None) -> None:
        """Kill an owner under load at a random moment; bookie `down` dies under it."""
        owner = self.owner()
        try:
            owner.until(lambda seen: seen.acked_entries >= 500)
            if down is not None:
                self.bookies.kill(down)
            owner.acknowledge_more(self.rng.randrange(1, 8000))
            owner.kill_under_way()
        finally:
            owner.close()
        self._back(down)

    def kill_at(self, step: str, down: int | None) -> None:
        """Kill an owner in the middle of `step`, with bookie `down` down all the while."""
        if down is not None and step != CHANGING:
            self.bookies.kill(down)
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
        """Kill one bookie after another until the owner stops before it replaces one."""
        owner.acknowledge_more(500)
        for number in itertools.cycle(range(len(self.bookies))):
            self.bookies.kill(number)
            target = self.history.owner.acked_entries + 2 * CONFIG.max_entries_per_ledger
            owner.until(lambda seen, target=target: seen.at == CHANGING or seen.acked_entries >= target)
            self.bookies.restart(number)
            if self.history.owner.at == CHANGING:
                return

    def _back(self, down: int | None) -> None:
        if down is not None and not self.bookies[down].running:
            self.bookies.restart(down)
