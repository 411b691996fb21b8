"""Targets: ZooKeeper's snapshot and log files, single transactions; checksums around the damage are often right."""

import contextlib
import io
import zlib
from collections.abc import Callable
from typing import BinaryIO

from mledger.snapshot.zookeeper_files.errors import SnapshotError
from mledger.snapshot.zookeeper_files.jute import FILE_HEADER, SEAL_TEXT, JuteError, decode_transaction
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile
from mledger.snapshot.zookeeper_files.transaction_log import LogFile
from tests.fuzz import corpus
from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import FuzzTarget, Maker

_LOG_HEADER = FILE_HEADER.pack(b"ZKLG", 2, 0)
_TRAILER = 8 + 12 + 2 * (8 + len(SEAL_TEXT)) + 8 + 8 + len(SEAL_TEXT)
_MOST_RECORDS = 20_000


class OneFile:
    """A directory with one file in memory."""

    where = "memory"

    def __init__(self, name: str, data: bytes) -> None:
        self._name, self._data = name, data

    def names(self) -> list[str]:
        return [self._name]

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self._data)


def snapshot(ending: str) -> Callable[[bytes], None]:
    """Reads a snapshot file whose name ends so, from its end and whole."""

    def run(data: bytes) -> None:
        file = SnapshotFile(OneFile(f"snapshot.1{ending}", data), f"snapshot.1{ending}")
        with contextlib.suppress(SnapshotError):
            file.tail()
        for _ in file.nodes():
            pass

    return run


def log(data: bytes) -> None:
    """Reads a log file whole."""
    zxid = int.from_bytes(data[44:52], "big")  # the first record's, which the file's name must give
    for _ in LogFile(OneFile("log", data), f"log.{zxid:x}").transactions(-1):
        pass


def transaction(data: bytes) -> None:
    """Reads one record of a log."""
    decode_transaction(data)


def _sealed(body: bytes) -> bytes:
    """A snapshot's body, from its header to the end mark, with the seal that it needs."""
    return body + zlib.adler32(body).to_bytes(8, "big") + SEAL_TEXT


def snapshots(ending: str) -> Callable[[str], Maker]:
    """Snapshot files, half of them with a right seal after the damage."""

    def make(seed: str) -> Maker:
        files = [data for name, data in corpus.zookeeper_files("snapshot.") if (name.count(".") == 2) == bool(ending)]
        files = [data for data in files if len(data) < 6_000]
        files = [data for data in files if not ending or data.startswith(_START[ending])]
        whole = Mutator(files, seed)
        if ending:
            return whole.make
        inner = Mutator([data[:-_TRAILER] for data in files], seed)
        return lambda: _sealed(inner.make()) if whole.below(2) else whole.make()

    return make


_START = {".gz": b"\x1f\x8b", ".snappy": b"\x82SNAPPY"}


def logs(seed: str) -> Maker:
    """Log files of one to four records, most with right checksums."""
    files = [data for _, data in corpus.zookeeper_files("log.")]
    whole, record_of = Mutator([data[:3_000] for data in files], seed), Mutator(corpus.log_records(), seed)

    def make() -> bytes:
        if whole.below(3) == 0:
            return whole.make()
        records = [record_of.make() if whole.below(2) else record_of.pick() for _ in range(1 + whole.below(3))]
        framed = [
            zlib.adler32(each).to_bytes(8, "big") + len(each).to_bytes(4, "big") + each + b"B" for each in records
        ]
        data = _LOG_HEADER + b"".join(framed) + bytes(16)
        return data if whole.below(4) else whole.change(data)

    return make


def transactions(seed: str) -> Maker:
    """Records of logs."""
    return Mutator(corpus.log_records(), seed).make


_FILE = (SnapshotError,)

TARGETS = [
    FuzzTarget("transactions", transactions, transaction, (JuteError,), 10),
    FuzzTarget("log files", logs, log, _FILE, 5),
    FuzzTarget("snapshots", snapshots(""), snapshot(""), _FILE, 2),
    FuzzTarget("snapshots, gzip", snapshots(".gz"), snapshot(".gz"), _FILE, 1),
    FuzzTarget("snapshots, snappy", snapshots(".snappy"), snapshot(".snappy"), _FILE, 1),
]
