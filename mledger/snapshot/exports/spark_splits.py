"""Shares of a reading carried out by Spark's Python workers: each reads once for all tables, and writes Parquet itself.

A task leaves what it wrote in a place of this try alone, with a record of its files that appears when they are whole:
a task that runs twice, or goes on after its driver was killed, harms nothing.
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
"""Called with a step's index and the files it wrote, which are in their place."""


@dataclass(frozen=True, slots=True)
class ShareTasks:
    """What a task does with the indexes of its steps; it is pickled to the workers.

    `rate`: znodes a second of each step.
    """

    options: ReadOptions
    steps: Sequence[Step]
    place: Path
    rate: float | None

    def __call__(self, places: Iterable[int]) -> Iterator[int]:
        """Carry out the steps at these places of `steps`; gives the places back."""
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
    """Carry out steps as tasks of one job, and move what they write from `attempt` to `tables` as they end.

    Raises ExportError; steps that had ended are finished.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tasks = ShareTasks(options, steps, attempt, rate)
    # A step is a task. (DataFrames would do it by Arrow too, but ask for pandas.)
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
                f"Spark could not write the tables ({first_line(error)}): run it again, what was finished is kept"
            ) from None
    if left:
        raise ExportError(
            f"{len(left)} tasks of Spark left nothing in {tables.parent}: it has to be a directory that all executors "
            "reach at the same path"
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
