"""kill -9 of the owner and of each bookie, again and again under load: nothing is lost, repeated or orphaned."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.aftermath import ComparedCounts, check_everything
from tests.faults.owner import CHANGING, OwnerLoad
from tests.faults.rounds import STEPS, Rounds
from tests.faults.soak.progress import Progress
from tests.faults.soak.report import Row, mib
from tests.faults.soak.world import SoakCluster, disk_used, running
from tests.support.aio import run

BETWEEN = 700
"""Entries acknowledged between the death of a bookie and its return, and again before the next one dies."""
BOOKIE_LOAD = OwnerLoad(rate=4000)
_CHECK_S = 1800.0


@dataclass
class Kills:
    """What was killed, and what was compared afterwards."""

    owner_kills: int = 0
    with_bookie_down: int = 0
    bookie_kills: int = 0
    owners: int = 0
    killed_at: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    disk_bytes: int = 0
    checked: ComparedCounts = field(default_factory=ComparedCounts)


def run_kills(where: Path | None, *, owner_kills: int, bookie_kills: int, seed: int) -> Kills:
    """Kill the owner `owner_kills` times, then each bookie `bookie_kills` times. HistoryBroken if anything is lost."""
    progress, done = Progress("kills"), Kills()
    with running(where) as world:
        rounds = Rounds(world.url, world.bookies, world.directory, seed)
        _kill_owners(rounds, owner_kills, done, progress)
        if bookie_kills:
            _kill_bookies(world, rounds, bookie_kills, done, progress)
        progress.step("comparing everything with what was acknowledged", always=True)
        done.disk_bytes = disk_used(world.directory / "bookies")
        done.checked = run(check_everything(rounds.history, world.url), timeout=_CHECK_S)
        done.owners = len(rounds.history.owners)
        done.killed_at = rounds.killed_at
    done.seconds = progress.seconds
    return done


def _kill_owners(rounds: Rounds, kills: int, done: Kills, progress: Progress) -> None:
    """Every second time with a bookie down, every fourth in the middle of a step that others could see."""
    steps = [step for _ in range(kills) for step in STEPS]
    for number in range(kills):
        down = rounds.rng.randrange(len(rounds.bookies)) if number % 2 else None
        step = steps[number // 4 * 2 + number % 4 // 2] if number % 4 in (0, 3) else None
        if step is None:
            rounds.kill_somewhere(down)
        else:
            rounds.kill_at(step, None if step == CHANGING else down)
        done.owner_kills += 1
        done.with_bookie_down += down is not None and step != CHANGING
        acked = sum(owner.acked_entries for owner in rounds.history.owners)
        progress.step(f"owner killed {number + 1} of {kills} times, {acked:,} entries acknowledged")


def _kill_bookies(world: SoakCluster, rounds: Rounds, kills_of_each: int, done: Kills, progress: Progress) -> None:
    """Each in turn under one owner's load."""
    owner, bookies = rounds.owner(load=BOOKIE_LOAD), len(world.bookies)
    try:
        for number in range(bookies * kills_of_each):
            owner.acknowledge_more(BETWEEN)
            world.bookies.kill(number % bookies)
            owner.acknowledge_more(BETWEEN)
            world.bookies.restart(number % bookies)
            done.bookie_kills += 1
            progress.step(
                f"bookies killed {number + 1} of {bookies * kills_of_each} times, owner {owner.history.owner}"
            )
        owner.kill()
    finally:
        owner.close()


def kills_rows(done: Kills) -> list[Row]:
    """The figures of a run in which everything held."""
    checked, steps = done.checked, ", ".join(f"{step} {count}" for step, count in sorted(done.killed_at.items()))
    backlogs = ", ".join(f"{name} {backlog:,}" for name, backlog in (checked.backlogs or {}).items())
    return [
        ("kill -9 of the owner, in a row under load", f"{done.owner_kills}", ""),
        ("… of these with a bookie down", f"{done.with_bookie_down}", ""),
        ("… of these in the middle of a step", steps, ""),
        ("kill -9 of bookies under load, each in its turn", f"{done.bookie_kills}", ""),
        ("entries acknowledged to an owner", f"{checked.acknowledged:,}", ""),
        ("acknowledged entries lost, double, moved or out of order", "0", "0"),
        ("flushed acknowledgements lost, or made up", "0", "0"),
        (
            f"entries and ledgers read back, {checked.copies:,} copies one by one",
            f"{checked.entries:,} in {checked.ledgers:,}",
            "each with ≥ 2 equal copies",
        ),
        ("ledgers without a record, records without a ledger", "0", "0"),
        ("backlogs, each equal to its recount and to what the cursor reads", backlogs, "exact at every recovery"),
        ("time, disk used at the end by all bookies", f"{done.seconds:,.0f} s, {mib(done.disk_bytes)}", ""),
    ]
