"""Carries out steps in this process or in worker processes; a worker that dies leaves no record of its step."""

import multiprocessing
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection

from mledger.metastore.runtime.processes.priority import stand_back
from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportCutOff
from mledger.snapshot.exports.files import write_parts
from mledger.snapshot.exports.recent_parts import plan_parts
from mledger.snapshot.exports.steps import Done, Steps
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.source.splits import Share
from mledger.snapshot.source.table_reader import read_apart
from mledger.snapshot.tables.pandas_import import leave_pandas_out
from mledger.snapshot.tables.row_builder import TABLES

NICENESS = 15
"""Of a worker at a limited rate: such a read is not urgent."""

Step = tuple[int, Share]


def run_steps(
    options: ReadOptions, steps: Sequence[Step], place: Destination, workers: int, rate: float | None
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
            yield index, write_step(options, share, place, index, rate)
        return
    each_rate = None if rate is None else rate / workers
    context, limited = multiprocessing.get_context("spawn"), (rate is not None,)
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=limited)
    try:
        running = {pool.submit(write_step, options, share, place, index, each_rate): index for index, share in steps}
        for future in as_completed(running):
            yield running[future], future.result()
    except BrokenProcessPool:
        raise ExportCutOff(
            "a worker process of the export was killed: run the command again, finished steps are kept "
            "(if it ran out of memory, use --workers 1)"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def write_step(options: ReadOptions, share: Share, place: Destination, index: int, rate: float | None) -> Done:
    """Read a share and write its rows into the unfinished export at `place`, under names of this attempt alone."""
    steps, attempt = Steps(place), uuid.uuid4().hex
    read = read_apart(options, share, dict.fromkeys(TABLES), rate)
    done = write_parts(plan_parts(read, f"part-{index:05d}-{attempt}"), steps.tables)
    steps.note(index, attempt, done)
    return done


def _begin(limited: bool) -> None:
    leave_pandas_out()
    if limited:
        stand_back(NICENESS)
    _end_with_parent()


def _end_with_parent() -> None:
    """End this worker when the export ends, even if the export is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait_and_exit, args=(parent.sentinel,), daemon=True).start()


def _wait_and_exit(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
