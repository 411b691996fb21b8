"""Carries out steps in this process or in worker processes; if a worker dies, its file is complete or absent."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path

from mledger.snapshot.exports.errors import ExportCutOff
from mledger.snapshot.exports.files import write_batches
from mledger.snapshot.exports.steps import Done
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.source.splits import Share
from mledger.snapshot.source.table_reader import read_share
from mledger.snapshot.tables.row_builder import TABLES

NICENESS = 15

Step = tuple[int, Share]


def run_steps(
    options: ReadOptions, steps: Sequence[Step], tables: Path, workers: int, rate: float | None
) -> Iterator[tuple[int, Done]]:
    """Carry out steps and yield each when it is done; `rate` is in znodes per second for all workers together.

    With a rate, the workers run at low priority. Raises ExportCutOff if a worker process ended, and what reading or
    writing raised; the other workers may then finish their current step.
    """
    if not steps:
        return
    workers = max(1, min(workers, len(steps)))
    if workers <= 1 and rate is None:
        for index, share in steps:
            yield index, write_step(options, share, tables, index, rate)
        return
    each_rate = None if rate is None else rate / workers
    context, limited = multiprocessing.get_context("spawn"), (rate is not None,)
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=limited)
    try:
        running = {pool.submit(write_step, options, share, tables, index, each_rate): index for index, share in steps}
        for future in as_completed(running):
            yield running[future], future.result()
    except BrokenProcessPool:
        raise ExportCutOff(
            "a worker process of the export was killed: run the command again, finished steps are kept "
            "(if it ran out of memory, use --workers 1)"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def write_step(options: ReadOptions, share: Share, tables: Path, index: int, rate: float | None) -> Done:
    """Read a share and write its rows."""
    wanted = dict.fromkeys(TABLES)
    return write_batches(read_share(options, share, wanted, rate), tables, f"part-{index:05d}")


def stand_back() -> None:
    """Lower the priority of this process: a read at a limited rate is not urgent."""
    os.nice(NICENESS)


def _begin(limited: bool) -> None:
    if limited:
        stand_back()
    _end_with_parent()


def _end_with_parent() -> None:
    """End this worker when the export ends, even if the export is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait_and_exit, args=(parent.sentinel,), daemon=True).start()


def _wait_and_exit(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
