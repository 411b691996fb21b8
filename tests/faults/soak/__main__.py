"""`make soak`: the long and hostile runs. Exit code 1 if anything that must hold does not."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.faults.checker import HistoryBroken
from tests.faults.recorder import OwnerEnded
from tests.faults.soak import report
from tests.faults.soak.broker import broker_rows, run_broker
from tests.faults.soak.hostile import hostile_rows, run_hostile
from tests.faults.soak.kills import kills_rows, run_kills
from tests.faults.soak.space import run_space, space_rows
from tests.faults.soak.steady import run_steady, steady_rows
from tests.faults.soak.strangers import run_strangers, strangers_rows

RUNS = ("kills", "steady", "space", "hostile", "broker", "strangers")


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for, one after the other. The figures of each go to reliability.md as it ends."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.runs) - set(RUNS):
        parser.error(f"{', '.join(unknown)}: runs are {', '.join(RUNS)}")
    command = shlex.join(["make", "soak", *([f"SOAK_ARGS={shlex.join(arguments)}"] if arguments else [])])
    failed = False
    for name in options.runs or RUNS:
        try:
            rows, bad = _run(name, options)
        except (HistoryBroken, OwnerEnded, TimeoutError) as error:
            sys.stderr.write("\n".join((f"{name}: FAILED", str(error), *getattr(error, "__notes__", ()), "")))
            failed = True
            continue
        text = report.section(rows, command)
        print(f"\n{name}\n{text}")
        for what in bad:
            sys.stderr.write(f"{name}: does not hold: {what}\n")
        failed = failed or bool(bad)
        if not options.no_report:
            report.write(name, text)
    return int(failed)


def _run(name: str, options: argparse.Namespace) -> tuple[list[report.Row], list[str]]:
    """The figures of one run, and those that do not hold."""
    match name:
        case "kills":
            kills = run_kills(
                options.dir, owner_kills=options.owner_kills, bookie_kills=options.bookie_kills, seed=options.seed
            )
            return kills_rows(kills), []
        case "steady":
            return steady_rows(run_steady(options.dir, minutes=options.minutes, rate=options.rate))
        case "space":
            return space_rows(run_space(options.dir, payload_mb=options.payload_mb))
        case "hostile":
            return hostile_rows(run_hostile(options.dir, rounds=options.rounds, seed=options.seed))
        case "broker":
            return broker_rows(*run_broker(options.dir, kills=options.broker_kills))
        case "strangers":
            return strangers_rows(run_strangers(options.dir, inputs=options.inputs, seed=options.seed))
        case _:
            raise AssertionError(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make soak", description="Long and hostile runs over a cluster of processes; figures: reliability.md."
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(RUNS)}; all by default")
    parser.add_argument("--owner-kills", type=int, default=200, metavar="N", help="kills: of the owner, in a row")
    parser.add_argument("--bookie-kills", type=int, default=50, metavar="N", help="kills: of each bookie")
    parser.add_argument("--minutes", type=float, default=20.0, metavar="N", help="steady: how long")
    parser.add_argument("--rate", type=int, default=10_000, metavar="N", help="steady: entries a second")
    parser.add_argument("--payload-mb", type=int, default=2048, metavar="N", help="space: MiB written before deletion")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="hostile: how often each fault happens")
    parser.add_argument("--broker-kills", type=int, default=200, metavar="N", help="broker: how often it is killed")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="strangers: how many they send")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of everything that is left to chance")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where to keep the cluster while it runs")
    parser.add_argument("--no-report", action="store_true", help="leave docs/reference/reliability.md as it is")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
