"""Shares carried out by Spark's Python workers: each task reads once for all tables, and writes Parquet itself.

A task writes to the destination, under names of this attempt alone, and returns the names of its files. So a task that
runs twice, or continues after its driver was killed, does no harm. Only DataFrames, so that Spark Connect will do.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportError
from mledger.snapshot.exports.spark.session import first_line, spark_errors
from mledger.snapshot.exports.steps import Done, Steps, decode_done, encode_done
from mledger.snapshot.exports.workers import Step, write_step
from mledger.snapshot.source.options import ReadOptions

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class ShareTasks:
    """The function that a task runs, pickled for the workers; `rate` is in znodes per second for each step."""

    options: ReadOptions
    steps: Sequence[Step]
    place: Destination
    rate: float | None

    def __call__(self, at: int) -> str:
        """Carry out the step at this index of `steps`; returns the record of its files."""
        index, share = self.steps[at]
        return encode_done(write_step(self.options, share, self.place, index, self.rate))


def run_with_spark(session: Any, tasks: ShareTasks, progress: Callable[[int], None]) -> dict[int, Done]:
    """Carry out steps as tasks of one job; returns the files of each.

    `progress` is called now and then with the number of steps whose files are there. Raises ExportError; steps that
    ended before are kept.
    """
    from pyspark.sql.functions import udf

    count = len(tasks.steps)
    carry_out = udf(lambda at: tasks(at), "string", useArrow=False).asNondeterministic()
    # One task for each step.
    job_frame = session.range(0, count, 1, count).select("id", carry_out("id").alias("done"))
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(job_frame.collect)
        while not job.done():
            wait([job], timeout=POLL_S)
            with contextlib.suppress(ExportError):
                progress(Steps(tasks.place).count())
        try:
            rows = job.result()
        except spark_errors() as error:
            raise ExportError(
                f"Spark could not write the tables ({first_line(error)}): run the export again; finished steps are kept"
            ) from None
    return {tasks.steps[row["id"]][0]: decode_done(row["done"]) or [] for row in rows}
