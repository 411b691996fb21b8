"""`python -m tests.clients [--broker ours|original] [--client NAME] [--disturbance NAME] [FIELD=VALUE …]`.

Runs the matrix, or the scenarios of it that have these values, or with `--alone` one scenario with these values and
else a plain one, and prints what is wrong.
"""

import argparse
import sys
import tempfile
import time
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
    parser.add_argument("--alone", action="store_true", help="one scenario for each client")
    parser.add_argument("--dir", type=Path, help="where logs and events are kept")
    parser.add_argument("values", nargs="*", metavar="FIELD=VALUE")
    args = parser.parse_args()
    wanted = dict(_value(parser, each) for each in args.values)
    clients = args.client or CLIENTS
    if args.alone:
        disturbance = (args.disturbance or ["none"])[0]
        chosen = [Scenario(client=client, disturbance=disturbance, **wanted) for client in clients]
    else:
        every = [each for client in clients for each in scenarios(client)]
        chosen = [each for each in every if all(getattr(each, name) == value for name, value in wanted.items())]
    directory = args.dir or Path(tempfile.mkdtemp(prefix="clients-"))
    bad = 0
    with CLUSTERS[args.broker](directory / "cluster") as cluster, ClientDrivers(directory) as drivers:
        for disturbance in args.disturbance or DISTURBANCES:
            group = [each for each in chosen if each.disturbance == disturbance]
            if not group:
                continue
            began = time.monotonic()
            judgements = judge(cluster, drivers, group, disturbance, directory / disturbance)
            for scenario, judgement in judgements.items():
                bad += bool(judgement.findings)
                print(f"{'BAD ' if judgement.findings else 'good'} {scenario.name}", judgement, sep="\n", flush=True)
            print(f"{disturbance}: {len(group)} runs in {time.monotonic() - began:.1f} s", flush=True)
    print(f"{bad} bad; logs and events: {directory}")
    return int(bool(bad))


def _value(parser: argparse.ArgumentParser, text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    kinds = {each.name: each.type for each in fields(Scenario)}
    if name not in kinds:
        parser.error(f"fields are {', '.join(kinds)}")
    kind = kinds[name]
    return name, value in ("True", "true", "1") if kind is bool else int(value) if kind is int else value


if __name__ == "__main__":
    sys.exit(main())
