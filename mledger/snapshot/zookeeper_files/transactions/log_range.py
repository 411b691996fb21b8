"""A range of transactions in ZooKeeper's logs: which files hold it, and what is known of the tree before it.

Nothing is left out silently. A range begins at the oldest transaction that the logs hold, or after one of them: the
logs must hold that one too, because a gap between two epochs cannot be seen in the numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit, MissingLog, TruncatedFile, ZxidNotCovered
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import Transaction
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile, snapshot_zxid
from mledger.snapshot.zookeeper_files.transaction_log import LogFile, follows, log_zxid, missing_log
from mledger.snapshot.zookeeper_files.trees.file_selection import zxid_of


@dataclass(frozen=True, slots=True)
class LogRange:
    """The transactions above zxid `after` up to `until`, which `logs` hold, in order.

    `snapshot` is a snapshot file that is not newer than `after`; the logs then begin early enough to follow it. None:
    there is none, so what the nodes held before is known only as far as the logs show it.
    """

    after: int
    until: int
    logs: tuple[str, ...]
    snapshot: str | None = None


def first_point(files: DataFiles) -> int:
    """The zxid after which the logs begin. MissingLog if there are none."""
    return _first(files, _logs(files))


def last_point(files: DataFiles, *, until: int | None = None, until_ms: int | None = None) -> int:
    """The last transaction in the logs: up to zxid `until`, or before the first one later than the time `until_ms`.

    If there is none, the zxid after which the logs begin. Raises MissingLog if there are no logs, CorruptFile.
    """
    names = _logs(files)
    first = _first(files, names)
    if until_ms is not None:
        return _last_by(files, names, until_ms, first)
    for name in reversed([name for name in names if until is None or zxid_of(name) <= until]):
        found = [header.zxid for header in LogFile(files, name).headers() if until is None or header.zxid <= until]
        if found:
            return found[-1]
    return first


def plan_range(files: DataFiles, after: int | None, until: int) -> LogRange:
    """The range above `after` (None: all that the logs hold) up to `until`; MissingLog."""
    names = _logs(files)
    first = _first(files, names)
    start = first if after is None else after
    if until < start:
        raise LogDoesNotFit(
            f"the logs in {files.where} end at zxid {until:#x}, before {start:#x}, after which to continue: the server "
            "discarded transactions, or these are another server's files; begin anew from an earlier point"
        )
    if start < first:
        raise missing_log(start, first + 1, names[0])
    snapshot = _snapshot_before(files, first, start)
    begin = start if snapshot is None else zxid_of(snapshot)
    wanted = [name for name in names if zxid_of(name) <= max(until, start + 1)]
    earlier = [index for index, name in enumerate(wanted) if zxid_of(name) <= begin]
    return LogRange(start, until, tuple(wanted[earlier[-1] if earlier else 0 :]), snapshot)


def read_range(files: DataFiles, found: LogRange) -> Iterator[Transaction]:
    """All transactions of the range's logs up to its end; those up to `after` come first.

    Raises:
        MissingLog: transactions between two files are in no log.
        LogDoesNotFit: the logs no longer hold the transaction `after`: they were removed, or it was discarded.
        ZxidNotCovered: the logs end before the range does.
        CorruptFile: a file is damaged.
    """
    last, anchored = -1, False
    for name in found.logs:
        for transaction in LogFile(files, name).transactions(-1):
            zxid = transaction.zxid
            if zxid > found.until:
                break
            if last >= 0 and not follows(last, zxid):
                raise missing_log(last, zxid, name)
            anchored = anchored or zxid in (found.after, found.after + 1)
            if zxid > found.after and not anchored:
                raise _not_anchored(files, found.after, zxid, name)
            last = zxid
            yield transaction
    if last < found.until and found.until > found.after:
        raise ZxidNotCovered(
            f"the logs in {files.where} end at zxid {max(last, 0):#x}, before {found.until:#x}: a log was removed or "
            "changed meanwhile; read again"
        )


def _not_anchored(files: DataFiles, after: int, zxid: int, name: str) -> LogDoesNotFit:
    return LogDoesNotFit(
        f"the logs in {files.where} do not hold the transaction {after:#x}, after which to continue: {name} has "
        f"{zxid:#x} next, and whether transactions in between were purged cannot be seen; add the log that holds it, "
        "or begin anew after a point that the logs hold",
        name,
    )


def _logs(files: DataFiles) -> list[str]:
    return sorted((name for name in files.names() if log_zxid(name) is not None), key=zxid_of)


def _first(files: DataFiles, names: list[str]) -> int:
    if not names:
        raise MissingLog(
            f"{files.where} has no transaction log of ZooKeeper (log.<zxid>): give its dataDir, and with the option "
            "logs its dataLogDir"
        )
    return zxid_of(names[0]) - 1


def _last_by(files: DataFiles, names: list[str], until_ms: int, first: int) -> int:
    last = first
    for name in names:
        for header in LogFile(files, name).headers():
            if header.time > until_ms:
                return last
            last = header.zxid
    return last


def _snapshot_before(files: DataFiles, first: int, after: int) -> str | None:
    """The newest complete snapshot from which the logs reach to `after`."""
    names = [name for name in files.names() if snapshot_zxid(name) is not None and first <= zxid_of(name) <= after]
    for name in sorted(names, key=zxid_of, reverse=True):
        try:
            SnapshotFile(files, name).tail()
        except TruncatedFile:
            continue
        return name
    return None
