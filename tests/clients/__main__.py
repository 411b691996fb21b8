"""`python -m tests.clients [--broker ours|original] [--client NAME] [--disturbance NAME] [FIELD=VALUE[,VALUE…] …]`.

Runs the matrix, or the scenarios of it that have these values, or with `--alone` each combination of these values in a
scenario that is else a plain one, also those that the matrix leaves out; and prints what is wrong.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from tests.clients.drivers import ClientDrivers
from tests.clients.judged_broker import CLUSTERS
from tests.clients.matrix import judge
from tests.clients.scenario import CLIENTS, DISTURBANCES, Scenario, scenarios


def main() -> int:
    """Exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__.splitlines()[-1])
    parser.add_argument("--broker", choices=CLUSTERS, default="ours")
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--disturbance", choices=DISTURBANCES, action="append")
    parser.add_argument("--alone", action="store_true", help="the combinations of these values, and else plain runs")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run all of it so often on one cluster")
    parser.add_argument("--dir", type=Path, help="where logs and events are kept")
    parser.add_argument("values", nargs="*", metavar="FIELD=VALUE,…")
    args = parser.parse_args()
    wanted = dict(_values(parser, each) for each in args.values)
    clients, disturbances = args.client or CLIENTS, args.disturbance or (["none"] if args.alone else DISTURBANCES)
    if args.alone:
        chosen = [each for client in clients for each in _combinations(client, disturbances, wanted)]
    else:
        every = [each for client in clients for each in scenarios(client)]
        chosen = [each for each in every if all(getattr(each, name) in values for name, values in wanted.items())]
    directory = args.dir or Path(tempfile.mkdtemp(prefix="clients-"))
    bad = Counter[str]()
    with CLUSTERS[args.broker](directory / "cluster") as cluster, ClientDrivers(directory) as drivers:
        for number, disturbance in itertools.product(range(args.times), disturbances):
            group = [each for each in chosen if each.disturbance == disturbance]
            if not group:
                continue
            began = time.monotonic()
            judgements = judge(cluster, drivers, group, disturbance, directory / f"{disturbance} {number}")
            for scenario, judgement in judgements.items():
                bad[scenario.name] += bool(judgement.findings)
                print(f"{'BAD ' if judgement.findings else 'good'} {scenario.name}", judgement, sep="\n", flush=True)
            print(f"{disturbance}: {len(group)} runs in {time.monotonic() - began:.1f} s", flush=True)
    if args.times > 1:
        print(*(f"{count} of {args.times} bad: {name}" for name, count in bad.items()), sep="\n")
    print(f"{bad.total()} bad; logs and events: {directory}")
    return int(bool(bad.total()))


def _combinations(
    client: str, disturbances: Sequence[str], wanted: Mapping[str, Sequence[object]]
) -> Iterator[Scenario]:
    for disturbance, *values in itertools.product(disturbances, *wanted.values()):
        yield Scenario(client, disturbance=str(disturbance), **dict(zip(wanted, values, strict=True)))  # type: ignore[arg-type]


def _values(parser: argparse.ArgumentParser, text: str) -> tuple[str, list[object]]:
    name, _, values = text.partition("=")
    kinds = {each.name: each.type for each in fields(Scenario)}
    if name not in kinds:
        parser.error(f"fields are {', '.join(kinds)}")
    kind = kinds[name]
    return name, [
        value in ("True", "true", "1") if kind is bool else int(value) if kind is int else value
        for value in values.split(",")
    ]


if __name__ == "__main__":
    sys.exit(main())
