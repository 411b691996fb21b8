"""The start-up cost of commands: processor time of commands that inspect a small cluster, compared with bare Python.

The cluster has one topic with one cursor. Processor time is user and system time, which load on the machine hardly
changes.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import ROOT, BenchCluster
from bench.rig.report import emit_pairs

TOPIC = "persistent://public/default/orders"
COMMANDS = (
    ("--help",),
    ("topics", "list"),
    ("topics", "stats-internal", TOPIC),
    ("cursors", "list", TOPIC),
)
PEERS = {"python -c pass": ("-c", "pass"), "import click": ("-c", "import click")}
MLEDGER = ("-P", "-m", "mledger.cli.main")


def cpu_of(arguments: tuple[str, ...], url: str) -> float:
    """Milliseconds of processor time that a Python with these arguments takes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MLEDGER_METADATA": url}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command does not compile its modules each time
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main() -> None:
    """Run the pairs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0, help="not used: a command takes what it takes")
    args = parser.parse_args()
    with BenchCluster(1) as cluster:
        single = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")
        cpu_of((*MLEDGER, "topics", "create", TOPIC, *single), cluster.url)
        cpu_of((*MLEDGER, "cursors", "create", TOPIC, "billing", *single), cluster.url)
        for command in COMMANDS:
            cpu_of((*MLEDGER, *command), cluster.url)  # compiles what is not
            for peer, bare in PEERS.items():
                pairs = [
                    (cpu_of((*MLEDGER, *command), cluster.url), cpu_of(bare, cluster.url)) for _ in range(args.pairs)
                ]
                shown = " ".join(each for each in ("mledger", *command) if each != TOPIC)
                own, peers = ([pair[side] for pair in pairs] for side in (0, 1))
                emit_pairs("start", f"{shown}, processor time", own, peers, "ms", peer)


if __name__ == "__main__":
    main()
