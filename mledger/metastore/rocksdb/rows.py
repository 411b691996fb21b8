"""The durable form of a tree: rows in RocksDB, which writes and syncs its own log before a commit returns.

| key | value |
| --- | --- |
| `c` path | how many children the node has ever had, 8 bytes; absent if none |
| `i` | the last session id assigned, 8 bytes |
| `n` path | StoredNode |
| `s` session id, 8 bytes | StoredSession |
"""

import struct
from collections.abc import Iterator

from google.protobuf.message import DecodeError
from rocksdict import DBCompressionType, DBRecoveryMode, Options, Rdict, RdictIter, WriteBatch, WriteOptions

from mledger.metastore.errors import InvalidMetadataDirectory, RecordError
from mledger.metastore.memory.tree import NodeRecord
from mledger.metastore.records.pb.MetadataStore_pb2 import StoredNode, StoredSession
from mledger.metastore.rocksdb.log_tail import cut_torn_write
from mledger.metastore.rocksdb.peer import PeerProcess
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.rocksdb_iterators import at_row

log = get_logger(__name__)

_COUNT = b"c"
_LAST_ID = b"i"
_NODE = b"n"
_SESSION = b"s"
_NUMBER = struct.Struct(">Q")
_MEMTABLE_BYTES = 8 << 20  # replayed at most when the process starts


class Rows:
    """The rows of one directory; writes are gathered until `commit`."""

    def __init__(self, path: str) -> None:
        """Open or create. InvalidMetadataDirectory when RocksDB's log is damaged anywhere but at its end."""
        self._path = path
        self._db = self._open()
        self._sync = WriteOptions()
        self._sync.sync = True
        self._batch = WriteBatch(raw_mode=True)

    def _open(self) -> Rdict:
        try:
            try:
                return Rdict(self._path, _options())
            except Exception:  # RocksDB's have no class of their own
                if not cut_torn_write(self._path):
                    raise
                return Rdict(self._path, _options())
        except Exception as error:
            raise InvalidMetadataDirectory(f"{self._path} cannot be opened: {error}") from error

    def nodes(self) -> Iterator[NodeRecord]:
        """All nodes, parents before their children.

        RecordError for a row that does not parse; InvalidMetadataDirectory where RocksDB's files are damaged.
        """
        counts = {key: _NUMBER.unpack(value)[0] for key, value in self._with(_COUNT)}
        for key, value in self._with(_NODE):
            path = key.decode()
            node = StoredNode()
            try:
                node.ParseFromString(value)
            except DecodeError:
                raise RecordError(f"the row of {path} does not parse: restore the directory", path) from None
            yield NodeRecord(
                path,
                node.data,
                node.version,
                node.created_ms,
                node.modified_ms,
                node.ephemeral_owner,
                counts.get(key, 0),
            )

    def sessions(self) -> Iterator[tuple[int, float, PeerProcess | None]]:
        """Each session's id, time-out in seconds, and process; InvalidMetadataDirectory as of `nodes`."""
        for key, value in self._with(_SESSION):
            session = StoredSession.FromString(value)
            process = session.process
            known = PeerProcess(process.pid, process.started, process.boot_id, process.pid_namespace)
            yield _NUMBER.unpack(key)[0], session.timeout_ms / 1000, known if process.pid else None

    def last_session_id(self) -> int:
        """The last id assigned, 0 if there was none; InvalidMetadataDirectory as of `nodes`."""
        try:
            value = self._db.get(_LAST_ID)
        except Exception as error:
            raise self._damaged(error) from error
        return 0 if value is None else _NUMBER.unpack(value)[0]

    def put_node(self, record: NodeRecord) -> None:
        """Keep a node."""
        node = StoredNode(
            data=record.data,
            version=record.version,
            created_ms=record.created_ms,
            modified_ms=record.modified_ms,
            ephemeral_owner=record.ephemeral_owner,
        )
        self._batch.put(_NODE + record.path.encode(), node.SerializeToString())

    def put_count(self, path: str, count: int) -> None:
        """Store how many children a node has ever had."""
        if count:
            self._batch.put(_COUNT + path.encode(), _NUMBER.pack(count))
        else:
            self._batch.delete(_COUNT + path.encode())

    def delete_node(self, path: str) -> None:
        """Forget a node."""
        self._batch.delete(_NODE + path.encode())
        self._batch.delete(_COUNT + path.encode())

    def put_session(self, session_id: int, timeout_s: float, process: PeerProcess | None) -> None:
        """Keep a session."""
        session = StoredSession(timeout_ms=round(timeout_s * 1000))
        if process is not None:
            session.process.pid, session.process.started = process.pid, process.started
            session.process.boot_id, session.process.pid_namespace = process.boot_id, process.pid_namespace
        self._batch.put(_SESSION + _NUMBER.pack(session_id), session.SerializeToString())

    def put_last_session_id(self, session_id: int) -> None:
        """Store the last id assigned."""
        self._batch.put(_LAST_ID, _NUMBER.pack(session_id))

    def delete_session(self, session_id: int) -> None:
        """Forget a session."""
        self._batch.delete(_SESSION + _NUMBER.pack(session_id))

    def commit(self) -> None:
        """Write what was put, all or nothing, and sync it. After RocksDB raises, answer no request."""
        batch, self._batch = self._batch, WriteBatch(raw_mode=True)
        if len(batch):
            self._db.write(batch, self._sync)

    def close(self) -> None:
        """Close; uncommitted writes are lost."""
        try:
            self._db.close()
        except Exception as error:  # RocksDB repeats an error that it has had before; what was committed is synced
            log.warning("store_not_closed", path=self._path, error=error)

    def _with(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys that begin with `prefix`, without it, in ascending order, and their values."""
        rows = self._db.iter()
        rows.seek(prefix)
        while self._at_row(rows) and (key := rows.key())[:1] == prefix:
            yield key[1:], rows.value()
            rows.next()

    def _at_row(self, rows: RdictIter) -> bool:
        try:
            return at_row(rows)
        except Exception as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InvalidMetadataDirectory:
        return InvalidMetadataDirectory(
            f"{self._path} is damaged: {error}; restore the directory, or begin an empty one and restore a backup "
            "(`mledger metadata restore`)"
        )


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(64)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    return options
