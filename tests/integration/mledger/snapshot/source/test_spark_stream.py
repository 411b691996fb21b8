"""A streaming query over a growing log directory sees each change once, also if it is killed, and notices gaps."""

import json
import sys
import time
from contextlib import suppress
from subprocess import Popen

import psutil
import pytest
from kazoo.client import KazooClient
from pyspark.errors import PySparkException, StreamingQueryException

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.source.change_reader import end_of_logs, plan_changes, read_change_batches
from mledger.snapshot.source.options import parse_options
from tests.support.aio import HANG_S
from tests.support.java.class_archives import quick_spark
from tests.support.snapshots.spark import spark
from tests.support.zookeeper.zookeeper_files import log_bytes, transaction_bytes

__all__ = ["spark"]

pytestmark = pytest.mark.spark

EPOCH = 1 << 32
BESIDE_A_BATCH = 400
"""Changes; several logs of them."""
PROGRAM = """
import sys
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

logs, checkpoint, out, java = sys.argv[1:]
session = SparkSession.builder.master("local[1]").config("spark.driver.host", "127.0.0.1").config(
    "spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false").config(
    "spark.driver.extraJavaOptions", java).getOrCreate()
stream = session.readStream.format("mledger").option("metadata", logs).load("changes")
query = stream.writeStream.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds")
while True:
    try:
        query.start(out, format="parquet").awaitTermination()
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):  # what Spark says of a worker that takes 10 s to start
            raise
"""


def drain(spark, logs, tmp_path, **options):
    """Run the query until it has read all that is there."""
    stream = spark.readStream.format("mledger").options(metadata=f"file://{logs}", **options).load("changes")
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = writer.start(str(tmp_path / "out"), format="parquet")
    query.awaitTermination(HANG_S)


def seen(spark, tmp_path):
    frame = spark.read.parquet(str(tmp_path / "out"))
    return sorted((row["zxid"], row["index"], row["path"], row["operation"]) for row in frame.collect())


def in_logs(logs):
    options = parse_options({"metadata": f"file://{logs}"})
    batches = read_change_batches(options, plan_changes(options), ["zxid", "index", "path", "operation"])
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def write_log(logs, *zxids):
    logs.mkdir(exist_ok=True)
    records = [transaction_bytes(zxid, ("set", "/n", b"x", zxid & 0xFF)) for zxid in zxids]
    (logs / f"log.{zxids[0]:x}").write_bytes(log_bytes(records))


def batches_done(tmp_path):
    commits = tmp_path / "checkpoint" / "commits"
    return [path for path in commits.glob("*") if path.name.isdigit()] if commits.exists() else []


@pytest.mark.timeout(900)
def test_a_query_killed_under_a_writer_goes_on_with_each_change_once(spark, tmp_path):
    logs = f"file://{tmp_path}/zookeeper/data"
    arguments = (logs, str(tmp_path / "checkpoint"), str(tmp_path / "out"), quick_spark())
    with ZooKeeperServer.start(
        tmp_path / "zookeeper", sync=False, java_options=("-Dzookeeper.snapCount=100",)
    ) as server:
        client = KazooClient(server.connect_string)
        client.start(timeout=HANG_S)
        client.create("/n", b"0")
        with Popen([sys.executable, "-c", PROGRAM, *arguments], cwd=tmp_path) as process:
            try:
                number = 0
                while (done := len(batches_done(tmp_path))) < 3:
                    assert process.poll() is None
                    if number < BESIDE_A_BATCH * (1 + done):  # the writer is not far ahead of the query
                        number += 1
                        client.set("/n", b"%d" % number)
                    else:
                        time.sleep(0.01)
            finally:
                for each in processes_of(process):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
                process.kill()
        for number in range(300):
            client.set("/n", b"more %d" % number)
        client.stop()
        client.close()
    data = tmp_path / "zookeeper" / "data"
    drain(spark, data, tmp_path)
    assert seen(spark, tmp_path) == in_logs(data)
    assert len(list((data / "version-2").glob("log.*"))) > 2, "logs were rotated"
    zxids = [json.loads(line)["zxid"] for line in last_offsets(tmp_path)]
    assert zxids == [end_of_logs(parse_options({"metadata": f"file://{data}"})).zxid]


def processes_of(process):
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def last_offsets(tmp_path):
    offsets = sorted((int(path.name), path) for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    return offsets[-1][1].read_text().splitlines()[2:]


def test_a_stream_follows_rotated_logs_and_reads_nothing_twice(spark, tmp_path):
    logs = tmp_path / "logs"
    write_log(logs, 1, 2)
    drain(spark, logs, tmp_path)
    write_log(logs, 1, 2, 3)
    drain(spark, logs, tmp_path)
    write_log(logs, 4, 5)
    drain(spark, logs, tmp_path)
    (logs / "log.1").unlink()  # purged, but read before
    write_log(logs, EPOCH + 1)
    drain(spark, logs, tmp_path)
    assert [row[0] for row in seen(spark, tmp_path)] == [1, 2, 3, 4, 5, EPOCH + 1]


def test_a_stream_begins_after_a_zxid(spark, tmp_path):
    write_log(tmp_path / "logs", 1, 2, 3)
    drain(spark, tmp_path / "logs", tmp_path, after="0x2")
    assert [row[0] for row in seen(spark, tmp_path)] == [3]


@pytest.mark.parametrize(
    ("later", "message"),
    [((4, 5), "the transactions after zxid 0x2 are missing: log.4"), ((EPOCH + 1,), "are missing: log.100000001")],
)
def test_logs_purged_before_they_were_read_end_the_query_with_an_error(spark, tmp_path, later, message):
    logs = tmp_path / "logs"
    write_log(logs, 1, 2)
    drain(spark, logs, tmp_path)
    (logs / "log.1").unlink()
    write_log(logs, *later)
    with pytest.raises(StreamingQueryException, match=message):
        drain(spark, logs, tmp_path)


def test_only_changes_can_be_streamed(spark, tmp_path):
    stream = spark.readStream.format("mledger").option("metadata", f"file://{tmp_path}").load("topics")
    with pytest.raises(PySparkException, match="only changes can"):
        stream.writeStream.start(format="noop", checkpointLocation=str(tmp_path / "c")).awaitTermination(HANG_S)
