"""A writer of znodes, each durable when acknowledged: alone, and beside what may slow it."""

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.rig.cluster import run
from bench.rig.report import emit, emit_pairs

PARTS = "bench.processes.snapshot_parts"


def emit_beside(
    bench: str, case: str, url: str, pairs: int, seconds: float, other: Callable[[], AbstractContextManager[object]]
) -> None:
    """Print the writer's rate beside `other` against its rate alone, in runs of so many seconds.

    The two runs of a pair follow each other at once, in turns the one and the other first.
    """
    alone, beside = [], []
    options = ("--metadata", url, "--seconds", seconds)
    for pair in range(pairs):
        for with_other in (False, True) if pair % 2 == 0 else (True, False):
            if with_other:
                with other():
                    beside.append(run(PARTS, "writer", *options)["rate"])
            else:
                alone.append(run(PARTS, "writer", *options)["rate"])
    emit_pairs(bench, case, beside, alone, "writes/s", "the writer alone")


def emit_mean_beside_median(bench: str, case: str, url: str, seconds: float) -> None:
    """Print the writer's mean rate over so many seconds against that of its median second.

    What works for few of these seconds lowers the mean, and leaves the median at the rate of a writer that is alone.
    """
    written = run(PARTS, "writer", "--metadata", url, "--seconds", seconds)
    median = statistics.median(written["each_second"])
    emit(bench, case, written["rate"], "writes/s", peer="the writer's median second", peer_value=median)
