"""`python -m tests.sim`: search many seeds, or replay one and print its history."""

import argparse
import hashlib
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes.catalogue import FIXES, without_any
from tests.sim.shrinking import shrink
from tests.sim.simulation import Outcome, collected, simulate

HASH_SEED = "0"
_CHUNK = 25


class Found(NamedTuple):
    """What one seed came to."""

    seed: str
    violation: str
    steps: int


def search(first: int, count: int, processes: int, without: str = "") -> Iterator[Found]:
    """Run the seeds from `first` on, on so many processes; in any order."""
    seeds = ((str(seed), without) for seed in range(first, first + count))
    if processes == 1:
        yield from map(_run, seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(_run, seeds, _CHUNK)


def _run(wanted: tuple[str, str]) -> Found:
    seed, without = wanted
    schedule = plan_schedule(seed)
    if without and not FIXES[without].may_show(schedule):
        return Found(seed, "", 0)
    with without_any(without):
        outcome = simulate(schedule)
    collected(1)
    return Found(seed, outcome.violation, outcome.steps)


def report(outcome: Outcome) -> None:
    """Print a simulation's schedule and history."""
    schedule = outcome.schedule
    print(f"seed {schedule.seed}, ensemble, write and ack quorum {schedule.ensemble}, {schedule.bookies} bookies")
    for step in schedule.steps:
        print(f"  {step}")
    print(outcome.history)
    print(f"{outcome.steps} steps, {outcome.simulated_s:.3f} s simulated, digest {outcome.history.digest}")
    print(outcome.violation or "everything held")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when something was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", help="replay this seed and print its history")
    parser.add_argument("--shrink", action="store_true", help="with --seed: leave out steps as long as it fails")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, default=10_000, help="how many seeds")
    parser.add_argument("--digest", action="store_true", help="print one digest of all histories, and nothing else")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without", default="", choices=sorted(FIXES), help="take out a fix, stop when it is missed")
    args = parser.parse_args(arguments)
    if args.seed is not None:
        with without_any(args.without):
            return _replay(args.seed, shorter=args.shrink)
    if args.digest:
        print(_digest_of(range(args.first, args.first + args.schedules)))
        return 0
    began, steps, violated = time.monotonic(), 0, []
    for number, found in enumerate(search(args.first, args.schedules, args.processes, args.without), 1):
        steps += found.steps
        if found.violation:
            violated.append(found.seed)
            print(f"seed {found.seed}: {found.violation}", flush=True)
            if args.without:
                return 1
        if not number % 1000:
            print(f"{number} schedules in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    took = time.monotonic() - began
    print(
        f"{args.schedules} schedules from seed {args.first} in {took:.1f} s, {1000 * took / args.schedules:.1f} ms and "
        f"{steps / args.schedules:.0f} steps each; {len(violated)} violated"
    )
    return 1 if violated else 0


def _replay(seed: str, *, shorter: bool) -> int:
    outcome = simulate(plan_schedule(seed))
    if shorter and outcome.violation:
        kind = _kind(outcome.violation)
        outcome = simulate(shrink(outcome.schedule, lambda schedule: _kind(simulate(schedule).violation) == kind))
    report(outcome)
    return 1 if outcome.violation else 0


def _digest_of(seeds: Iterable[int]) -> str:
    """One digest of the histories of seeds."""
    digests = "\n".join(simulate(plan_schedule(str(seed))).history.digest for seed in seeds)
    return hashlib.sha256(digests.encode()).hexdigest()


def _kind(violation: str) -> str:
    """What was violated, without the names and numbers of one schedule."""
    return re.sub(r"[-\w]*\d[-\w]*|bookie-\w", "", violation.splitlines()[0] if violation else "")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # sets of strings iterate alike everywhere
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.sim", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": HASH_SEED},
        )
    sys.exit(main())
