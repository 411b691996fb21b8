"""Shares carried out by Spark's Python workers: each worker reads once for all tables, and writes Parquet itself.

A task writes to a directory that only this attempt uses, and adds a record of its files when they are complete. So a
task that runs twice, or continues after its driver was killed, does no harm.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mledger.snapshot.exports.errors import ExportError
from mledger.snapshot.exports.files import write_batches
from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.exports.session import first_line
from mledger.snapshot.exports.steps import Done
from mledger.snapshot.exports.workers import Step
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.source.table_reader import read_share
from mledger.snapshot.tables.row_builder import TABLES

POLL_S = 0.2
_DONE = "done"

Finished = Callable[[int, Done], None]
"""Called with a step's index and its files once they are in the snapshot's tables."""


@dataclass(frozen=True, slots=True)
class ShareTasks:
    """The function that a task runs, pickled for the workers; `rate` is in znodes per second for each step."""

    options: ReadOptions
    steps: Sequence[Step]
    place: Path
    rate: float | None

    def __call__(self, places: Iterable[int]) -> Iterator[int]:
        """Carry out the steps at these indexes of `steps`, and yield each index when its step is done."""
        for place in places:
            index, share = self.steps[place]
            part = f"part-{index:05d}-{uuid.uuid4().hex}"
            read = read_share(self.options, share, dict.fromkeys(TABLES), self.rate)
            self._leave(index, write_batches(read, self.place, part))
            yield place

    def _leave(self, index: int, files: Done) -> None:
        record = self.place / _DONE / f"{index}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary = record.with_name(f".{uuid.uuid4().hex}")
        temporary.write_text(json.dumps([[table, asdict(file)] for table, file in files]))
        os.replace(temporary, record)


def run_with_spark(
    session: Any,
    options: ReadOptions,
    steps: Sequence[Step],
    attempt: Path,
    tables: Path,
    rate: float | None,
    finished: Finished,
) -> None:
    """Carry out steps as tasks of one job, and move their files from `attempt` to `tables` as each ends.

    Raises ExportError; steps that ended before are kept.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tasks = ShareTasks(options, steps, attempt, rate)
    # One task for each step. (DataFrames could do this with Arrow, but need pandas.)
    places = session.sparkContext.parallelize(range(len(steps)), len(steps))
    left = {index for index, _ in steps}
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(lambda: places.mapPartitions(tasks).collect())
        while not job.done():
            wait([job], timeout=POLL_S)
            _take(left, attempt, tables, finished)
        try:
            job.result()
        except (PySparkException, Py4JError) as error:
            raise ExportError(
                f"Spark could not write the tables ({first_line(error)}): run the export again; finished steps are kept"
            ) from None
    if left:
        raise ExportError(
            f"{len(left)} Spark tasks left no files in {tables.parent}: use a directory that all executors reach at "
            "the same path"
        )


def _take(left: set[int], attempt: Path, tables: Path, finished: Finished) -> None:
    for index in sorted(left):
        record = attempt / _DONE / f"{index}.json"
        if not record.exists():
            continue
        files = [(table, FileRecord(**file)) for table, file in json.loads(record.read_bytes())]
        for _, file in files:
            target = tables / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(attempt / file.path, target)
        left.discard(index)
        finished(index, files)
