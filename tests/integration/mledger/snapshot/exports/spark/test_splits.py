"""What becomes of a job of Spark's that an export does not wait for to its end."""

import time

import pytest

from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.spark.splits import run_with_spark
from tests.support.aio import HANG_S
from tests.support.snapshots.spark import spark

__all__ = ["spark"]

pytestmark = pytest.mark.spark


def test_an_interrupted_job_is_cancelled(spark, tmp_path):
    class EndlessTasks:
        steps = ((0, None),)
        place = local_place(tmp_path)

        def __call__(self, at):
            time.sleep(HANG_S)

    tracker = spark.sparkContext.statusTracker()

    def interrupt(_):
        if tracker.getActiveStageIds():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with_spark(spark, EndlessTasks(), interrupt)
    assert tracker.getActiveJobsIds() == []
