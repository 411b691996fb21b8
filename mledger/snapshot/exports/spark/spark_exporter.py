"""Exports with Spark: its tasks carry out the same shares as `exporter`, and write to the destination themselves."""

from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.exporter import (
    Exported,
    ExportRequest,
    Progress,
    begin,
    finish,
    ignore_progress,
    kept_steps,
    shares_of,
    steps_of_shares,
)
from mledger.snapshot.exports.spark.session import start_session, while_it_lives
from mledger.snapshot.exports.spark.splits import ShareTasks, run_with_spark
from mledger.snapshot.source.splits import LedgerShare

SPARK = "spark"


def export_with_spark(
    asked: ExportRequest, to: SnapshotDirectory, progress: Progress = ignore_progress, remote: str | None = None
) -> Exported:
    """As `exporter.export`, with Spark: by the Spark Connect server `remote`, or as `start_session` finds a session."""
    options = asked.read_options()
    begun = begin(asked, options, to, steps_of_shares)
    if isinstance(begun, Exported):
        return begun
    plan, steps = begun.plan, begun.steps
    finished = kept_steps(plan, steps)
    resumed, total = len(finished), len(plan.steps)
    left = [each for each in shares_of(begun) if each[0] not in finished]
    ledgers = [each for each in left if isinstance(each[1], LedgerShare)]
    others = [each for each in left if not isinstance(each[1], LedgerShare)]
    session = start_session(remote)

    def show(count: int) -> None:
        progress(count, total, sum(file.rows for each in finished.values() for _, file in each))

    with while_it_lives():
        for part in (ledgers, others):  # all ledgers before what names them
            if part:
                rate = None if options.rate is None else options.rate / len(part)
                finished |= run_with_spark(session, ShareTasks(options, part, steps.place, rate), show)
                show(len(finished))
    return finish(asked, to, plan, steps, finished, resumed)
