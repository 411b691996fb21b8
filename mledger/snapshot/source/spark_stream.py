"""`spark.readStream.format("mledger")`: the table `changes` from a directory of logs that grows.

The offset is the zxid of the last transaction read, and its time, which shows whether the logs are still of the same
cluster. A batch is a range of transactions, which gives the same rows
whenever it is read, so that a query with a checkpoint sees each change once. The reader keeps nothing itself.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mledger.snapshot.source.change_reader import (
    begin_of_logs,
    end_of_logs,
    log_files,
    plan_changes,
    read_change_batches,
)
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.zookeeper_files.transactions.log_range import LogRange

_ZXID = "zxid"
_TIME = "time"
"""In ms since 1970; checkpoints of earlier versions do not have it."""


class RangePartition(InputPartition):  # type: ignore[misc]  # pyspark has no types here
    """A range of transactions."""

    def __init__(self, found: LogRange) -> None:
        super().__init__(None)
        self.found = found


class ChangeStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads changes as the logs grow, each batch in one task, because a change needs what the ones before it left."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        log_files(options)
        self.read_options = options
        self.columns = tuple(columns)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Where a query without a checkpoint begins: at the option `after`, or with the oldest log."""
        return {_ZXID: begin_of_logs(self.read_options)}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """The last complete transaction in the logs; Spark before 4.2 gives no arguments."""
        end = end_of_logs(self.read_options)
        return {_ZXID: end.zxid} | ({} if end.time_ms is None else {_TIME: end.time_ms})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The range between two offsets. MissingLog, LogDoesNotFit: the logs no longer hold where it begins."""
        return [RangePartition(plan_changes(self.read_options, start[_ZXID], end[_ZXID], start.get(_TIME)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range; SnapshotError."""
        assert isinstance(partition, RangePartition)
        yield from read_change_batches(self.read_options, partition.found, self.columns)
