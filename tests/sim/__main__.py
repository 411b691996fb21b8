"""`python -m tests.sim`: search many seeds, or replay one and print its history."""

import argparse
import hashlib
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Sequence

from tests.sim.accumulated import RECORD, Run, add, next_seed, read, sources, version
from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes.catalogue import FIXES, without_any
from tests.sim.search import cpu_s, search
from tests.sim.shrinking import shrink
from tests.sim.simulation import SimulationResult, simulate

HASH_SEED = "0"
_ROUND = 500


def report(outcome: SimulationResult) -> None:
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
    parser.add_argument("--first", type=int, help="the first seed (default: the first one that is not recorded)")
    parser.add_argument(
        "--accumulate",
        type=int,
        metavar="N",
        help="run N seeds that are not recorded, and record them; ends with the first round that violates something",
    )
    parser.add_argument("--schedules", type=int, default=10_000, help="how many seeds")
    parser.add_argument("--digest", action="store_true", help="print one digest of all histories, and nothing else")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--nice", type=int, default=0, help="yield the processor to others, as the command nice")
    parser.add_argument("--without", default="", choices=sorted(FIXES), help="take out a fix, stop when it is missed")
    args = parser.parse_args(arguments)
    os.nice(args.nice)
    if args.seed is not None:
        with without_any(args.without):
            return _replay(args.seed, shorter=args.shrink)
    if args.digest:
        first = args.first or 0
        print(_digest_of(range(first, first + args.schedules)))
        return 0
    if args.accumulate:
        return _accumulate(args.accumulate, args.processes)
    first = args.first
    if first is None:
        first = 0 if args.without else next_seed(read())
    seeds = range(first, first + args.schedules)
    violations, *_ = _search(seeds, args.processes, args.without)
    return 1 if violations else 0


def _accumulate(count: int, processes: int) -> int:
    """Run the seeds that come next, and record each round of them, until one violates something."""
    commit, digest, first = version(), sources(), next_seed(read())
    for start in range(first, first + count, _ROUND):
        seeds = range(start, min(start + _ROUND, first + count))
        violations, cpu, steps = _search(seeds, processes)
        add(Run(commit, digest, seeds[0], seeds[-1], round(cpu, 1), steps, violations))
        if violations:
            break
    print(f"recorded in {RECORD}")
    return 1 if violations else 0


def _search(seeds: range, processes: int, without: str = "") -> tuple[dict[str, str], float, int]:
    """Search seeds: the violations by seed, processor seconds, callbacks. Without a fix the first violation ends it."""
    began, cpu, steps, violations = time.monotonic(), cpu_s(), 0, {}
    for found in search(seeds, processes, without):
        steps += found.steps
        if found.violation:
            violations[str(found.seed)] = found.violation
            command = f"python -m tests.sim --without {without} --seed " if without else "make sim SEED="
            print(f"seed {found.seed}: {found.violation}\n{command}{found.seed}", flush=True)
            if without:
                return violations, 0.0, steps
    took, cpu = time.monotonic() - began, cpu_s() - cpu
    each = 1000 / len(seeds)
    print(
        f"seeds {seeds[0]} to {seeds[-1]} in {took:.0f} s: {each * took:.1f} ms, {each * cpu:.1f} ms of a processor "
        f"and {steps / len(seeds):.0f} callbacks each; {len(violations)} violated",
        flush=True,
    )
    return violations, cpu, steps


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    logging.disable()  # the history says what simulated processes died of
    sys.exit(main())
