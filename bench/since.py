"""Snapshots continued with logs that changed one znode in a hundred, against full exports of the same points.

On a cluster whose busy topics are the same every day, the first night after a full export changes the znodes that had
changed the day before the export, and the second one changes them again. At random places, a night changes znodes that
had not changed for weeks. Each export is the command that users run, with its defaults. By default the cluster has
200,000 znodes.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import require_disk, run
from bench.rig.process_watch import Usage, watch
from bench.rig.report import emit_pairs

TOPICS, CURSORS, LEDGERS = 20_400, 61_300, 102_200
DISK_BYTES = 1 << 30
BUSY = ("first night", "second night")
ANYWHERE = ("first night at random places",)


def export(metadata: str, to: Path, name: str, *options: str) -> Usage:
    """The command's usage."""
    command = ("-m", "mledger.cli.main", "--metadata", metadata, "--output", "json", "snapshot", "export", str(to))
    return watch((*command, "--name", name, *options))


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--cursors", type=int, default=CURSORS)
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.0, help="not used: each export runs to its end")
    args = parser.parse_args()
    require_disk(DISK_BYTES)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        sizes = [f"--{size}={getattr(args, size)}" for size in ("topics", "cursors", "ledgers")]
        made = run("bench.workload.zookeeper_tree", directory / "anywhere", *sizes)
        shutil.copytree(directory / "anywhere", directory / "busy")
        run("bench.workload.zookeeper_log", directory / "busy", *sizes, "--deletes=2")
        measure(directory / "busy", sizes, BUSY, 2, made["znodes"], args.pairs)
        measure(directory / "anywhere", sizes, ANYWHERE, 1, made["znodes"], args.pairs)


def measure(files: Path, sizes: Sequence[str], nights: Sequence[str], first: int, znodes: int, pairs: int) -> None:
    """Export the files fully, then after each of the nights, which begin with the `first`; print the results."""
    metadata, to = f"file://{files}", files.with_suffix(".exported")
    export(metadata, to, "before")
    before = "before"
    for number, night in enumerate(nights, first):
        made = run("bench.workload.zookeeper_log", files, *sizes, f"--night={number}", f"--deletes={first}")
        since = ("--since", before)
        timed = [(_timed(metadata, to, "since", *since), _timed(metadata, to, "full")) for _ in range(pairs)]
        what = f"{night}, {made['transactions']:,} of {znodes:,} znodes changed"
        for each, figure in enumerate(("the command's own seconds", "CPU of all processes")):
            ours, full = ([one[each] for one in side] for side in zip(*timed, strict=True))
            emit_pairs("since", f"{what}: {figure}", ours, full, "s", "a full export")
        before = f"night-{number}"
        export(metadata, to, before, *since)


def _timed(metadata: str, to: Path, name: str, *options: str) -> tuple[float, float]:
    """The seconds that the command tells, and its CPU seconds; the snapshot is removed again."""
    usage = export(metadata, to, name, *options)
    for path in to.glob(f"**/snapshot={name}"):
        shutil.rmtree(path)
    return json.loads(usage.output)["seconds"], sum(usage.cpu.values())


if __name__ == "__main__":
    main()
