"""The reader of a stream by itself: its offsets name the last transaction read, and by its time the cluster."""

import pytest

from mledger.snapshot import LogDoesNotFit
from mledger.snapshot.source.options import parse_options
from mledger.snapshot.source.spark_stream import ChangeStreamReader
from tests.support.zookeeper.zookeeper_files import log_bytes, transaction_bytes


def reader_of(directory, time_ms, *zxids):
    """A reader of one log, with transactions of one time."""
    directory.mkdir()
    records = [transaction_bytes(zxid, ("set", "/n", b"x", zxid), time=time_ms) for zxid in zxids]
    (directory / f"log.{zxids[0]:x}").write_bytes(log_bytes(records))
    return ChangeStreamReader(parse_options({"metadata": f"file://{directory}"}), ["zxid"])


def zxids_after(reader, offset):
    (partition,) = reader.partitions(offset, reader.latestOffset())
    return [zxid for batch in reader.read(partition) for zxid in batch["zxid"].to_pylist()]


def test_a_checkpoint_of_one_cluster_is_not_continued_with_the_logs_of_another(tmp_path):
    ours, theirs = reader_of(tmp_path / "ours", 1000, 1, 2), reader_of(tmp_path / "theirs", 2000, 1, 2, 3)
    assert zxids_after(ours, ours.initialOffset()) == [1, 2]
    offset = ours.latestOffset()
    assert offset == {"zxid": 2, "time": 1000}
    with pytest.raises(LogDoesNotFit, match="these are the logs of another cluster"):
        zxids_after(theirs, offset)


def test_a_checkpoint_of_a_version_without_times_is_continued(tmp_path):
    assert zxids_after(reader_of(tmp_path / "logs", 1000, 1, 2, 3), {"zxid": 2}) == [3]
