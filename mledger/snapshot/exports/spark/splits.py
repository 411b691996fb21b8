"""Shares carried out by Spark's Python workers: each task reads once for all tables, and writes Parquet itself.

A task writes to the destination, under names of this attempt alone, and returns the names of its files. So a task that
runs twice, or continues after its driver was killed, does no harm. Only DataFrames, so that Spark Connect will do.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
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
    tag, (mark, cancel) = uuid.uuid4().hex, _tagging(session)
    with ThreadPoolExecutor(1, initializer=mark, initargs=(tag,)) as thread:
        job = thread.submit(job_frame.collect)
        with _cancelled_if_left(job, partial(cancel, tag)):
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


def _tagging(session: Any) -> tuple[Callable[[str], object], Callable[[str], object]]:
    """What gives a thread's jobs a tag, and what cancels jobs by it; the session's own finds none without Connect."""
    context = getattr(session, "sparkContext", None)
    if context is None:
        return session.addTag, session.interruptTag
    return context.addJobTag, context.cancelJobsWithTag


@contextlib.contextmanager
def _cancelled_if_left(job: Future[Any], cancel: Callable[[], object]) -> Iterator[None]:
    """Cancel the job if the body is left by an error or an interruption: else its end would be waited for."""
    try:
        yield
    except BaseException:
        while not job.done():  # it may not have begun yet
            cancel()
            wait([job], timeout=POLL_S)
        raise
