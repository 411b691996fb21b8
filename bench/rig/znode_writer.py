"""A writer of znodes, each durable when acknowledged: alone, and beside what may slow it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.rig.cluster import run
from bench.rig.report import emit_pairs

PARTS = "bench.processes.snapshot_parts"


def emit_beside(
    bench: str, case: str, url: str, pairs: int, seconds: float, other: Callable[[], AbstractContextManager[object]]
) -> None:
    """Print the writer's rate beside `other` against its rate alone, in alternating runs of so many seconds."""
    alone, beside = [], []
    options = ("--metadata", url, "--seconds", seconds)
    for _ in range(pairs):
        alone.append(run(PARTS, "writer", *options)["rate"])
        with other():
            beside.append(run(PARTS, "writer", *options)["rate"])
    emit_pairs(bench, case, beside, alone, "writes/s", "the writer alone")
