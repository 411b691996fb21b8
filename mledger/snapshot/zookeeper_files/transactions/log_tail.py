"""What ZooKeeper's logs hold after a transaction, read once and in order; no snapshot file of ZooKeeper is needed.

The logs must hold that transaction, or the one with the next number: a gap between two epochs cannot be seen in the
numbers. Every cluster counts from 1: only the transaction itself, by its time, shows that the logs are of its cluster.
"""

from collections.abc import Iterator

from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit, MissingLog, ZxidNotCovered
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import Transaction
from mledger.snapshot.zookeeper_files.transaction_log import LogFile, check_follows, log_zxid
from mledger.snapshot.zookeeper_files.trees.file_selection import zxid_of


class LogTail:
    """The transactions after zxid `after`: up to zxid `until`, or before the first one later than the time `until_ms`.

    `after_ms` is the time of the transaction `after`, None if it is not known. When `transactions` has ended, `zxid`
    and `time_ms` are those of the last one, `after` and None if there is none; `anchor_ms` is the time of `after`, None
    if the logs begin behind it; `warnings` tells of a torn end.
    """

    def __init__(
        self,
        files: DataFiles,
        after: int,
        *,
        after_ms: int | None = None,
        until: int | None = None,
        until_ms: int | None = None,
    ) -> None:
        self.zxid = after
        self.time_ms: int | None = None
        self.anchor_ms: int | None = None
        self.warnings: tuple[str, ...] = ()
        self._files = files
        self._after = after
        self._after_ms = after_ms
        self._until = until
        self._until_ms = until_ms
        self._anchored = False

    def transactions(self) -> Iterator[Transaction]:
        """The transactions, in order.

        Raises:
            MissingLog: the logs begin later, or lack transactions.
            LogDoesNotFit: the logs do not hold the transaction `after`, or end before it, or it has another time.
            ZxidNotCovered: the logs end before `until`, or `until` is before `after`.
            CorruptFile: a file is damaged, or repeats transactions of another.
        """
        if self._until is not None and self._until < self._after:
            raise ZxidNotCovered(
                f"zxid {self._until:#x} is before {self._after:#x}, where the older snapshot ends: choose an older "
                "one, or export fully"
            )
        names = plan_tail(self._files, self._after)
        past = False
        for name in names:
            log = LogFile(self._files, name)
            for transaction in log.transactions(self._after - 1):
                past = self._is_past(transaction)
                if past:
                    break
                self._check(transaction.zxid, transaction.header.time, name)
                if transaction.zxid > self._after:
                    self.zxid, self.time_ms = transaction.zxid, transaction.header.time
                    yield transaction
            if past:
                break
            if log.torn_at is not None:
                torn = f"{name} ends at byte {log.torn_at} within an incompletely written transaction, after "
                self.warnings = (*self.warnings, f"{torn}{self.zxid:#x}")
        self._check_end(names[-1], past=past)

    def _is_past(self, transaction: Transaction) -> bool:
        if self._until is not None and transaction.zxid > self._until:
            return True
        return self._until_ms is not None and transaction.header.time > self._until_ms

    def _check(self, zxid: int, time_ms: int, name: str) -> None:
        if zxid == self._after:
            self.anchor_ms = time_ms
            if self._after_ms not in (None, time_ms):
                raise LogDoesNotFit(
                    f"{name} has the transaction {zxid:#x} of {utc_text(time_ms)}, but the one where the older "
                    f"snapshot ends is of {utc_text(self._after_ms)}: the snapshot and the logs are of different "
                    "clusters; name a snapshot of this cluster, or export fully",
                    name,
                )
        self._anchored = self._anchored or zxid in (self._after, self._after + 1)
        if not self._anchored:
            raise self._unanchored(f"{name} has {zxid:#x} next", name)
        if zxid > self._after:
            check_follows(self.zxid, zxid, name)

    def _check_end(self, name: str, *, past: bool) -> None:
        if not past and self._until is not None and self.zxid < self._until:
            raise ZxidNotCovered(
                f"zxid {self._until:#x} is beyond the logs in {self._files.where}, which end at {self.zxid:#x}"
            )
        if not self._anchored and not past:
            raise self._unanchored("they end before it", name)

    def _unanchored(self, what: str, name: str) -> LogDoesNotFit:
        return LogDoesNotFit(
            f"the logs in {self._files.where} do not hold the transaction {self._after:#x}, where the older snapshot "
            f"ends: {what}; the server discarded it, or these are another server's files: add the log that holds it, "
            "or export fully",
            name,
        )


def plan_tail(files: DataFiles, after: int) -> tuple[str, ...]:
    """The logs that hold the transactions after `after`, in order. MissingLog if they begin later."""
    names = sorted((name for name in files.names() if log_zxid(name) is not None), key=zxid_of)
    starts = [index for index, name in enumerate(names) if zxid_of(name) <= after + 1]
    if not names:
        raise MissingLog(
            f"{files.where} has no transaction log of ZooKeeper (log.<zxid>), but the transactions after {after:#x} "
            "are needed: give its dataDir, and with the option logs its dataLogDir, or export fully"
        )
    if not starts:
        raise MissingLog(
            f"the logs in {files.where} begin at zxid {zxid_of(names[0]):#x}, but the transactions after {after:#x} "
            "are needed: add the older logs, or export fully",
            names[0],
        )
    return tuple(names[starts[-1] :])
