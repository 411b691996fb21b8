"""A range of transactions in ZooKeeper's logs: which files hold it, and what is known of the tree before it.

Nothing is left out silently. A range begins at the oldest transaction that the logs hold, or after one of them: the
logs must hold that one too, because a gap between two epochs cannot be seen in the numbers. Every cluster counts from
1: only that transaction's time shows that the logs are of the same cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit, MissingLog, TruncatedFile, ZxidNotCovered
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import Transaction
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile, snapshot_zxid
from mledger.snapshot.zookeeper_files.transaction_log import LogFile, check_follows, log_zxid, missing_log
from mledger.snapshot.zookeeper_files.trees.file_selection import zxid_of


@dataclass(frozen=True, slots=True)
class LogMark:
    """A transaction, and its time in ms since 1970; None if the logs begin after it."""

    zxid: int
    time_ms: int | None


@dataclass(frozen=True, slots=True)
class LogRange:
    """The transactions above zxid `after` up to `until`, which `logs` hold, in order.

    `snapshot` is a snapshot file that is not newer than `after`; the logs then begin early enough to follow it. None:
    there is none, so what the nodes held before is known only as far as the logs show it. `after_ms` is the time of the
    transaction `after`, None if it is not known.
    """

    after: int
    until: int
    logs: tuple[str, ...]
    snapshot: str | None = None
    after_ms: int | None = None


def first_point(files: DataFiles) -> int:
    """The zxid after which the logs begin. MissingLog if there are none."""
    return _first(files, _logs(files))


def last_point(files: DataFiles, *, until: int | None = None, until_ms: int | None = None) -> LogMark:
    """The last transaction in the logs: up to zxid `until`, or before the first one later than the time `until_ms`.

    If there is none, the zxid after which the logs begin. Raises MissingLog if there are no logs, CorruptFile.
    """
    names = _logs(files)
    first = _first(files, names)
    if until_ms is not None:
        return _last_by(files, names, until_ms, first)
    for name in reversed([name for name in names if until is None or zxid_of(name) <= until]):
        found = None
        for header in LogFile(files, name).headers():
            if until is None or header.zxid <= until:
                found = header
        if found is not None:
            return LogMark(found.zxid, found.time)
    return LogMark(first, None)


def plan_range(files: DataFiles, after: int | None, until: int, after_ms: int | None = None) -> LogRange:
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
    return LogRange(start, until, tuple(wanted[earlier[-1] if earlier else 0 :]), snapshot, after_ms)


def read_range(files: DataFiles, found: LogRange) -> Iterator[Transaction]:
    """All transactions of the range's logs up to its end; those up to `after` come first.

    Raises:
        MissingLog: transactions between two files are in no log.
        LogDoesNotFit: the logs no longer hold the transaction `after`: they were removed, or it was discarded; or it
            has another time.
        ZxidNotCovered: the logs end before the range does.
        CorruptFile: a file is damaged, or repeats transactions of another.
    """
    last, anchored = -1, False
    for name in found.logs:
        for transaction in LogFile(files, name).transactions(-1):
            zxid = transaction.zxid
            if zxid > found.until:
                break
            if last >= 0:
                check_follows(last, zxid, name)
            if zxid == found.after:
                _check_time(found, transaction.header.time, name)
            anchored = anchored or zxid in (found.after, found.after + 1)
            if zxid > found.after and not anchored:
                raise _not_anchored(files, found.after, zxid, name)
            last = zxid
            yield transaction
    if last < found.until and found.until > found.after:
        raise ZxidNotCovered(
            f"the logs in {files.where} end at zxid {max(last, 0):#x}, before {found.until:#x}: a log was removed or "
            "changed meanwhile, or the server discarded transactions; read again, or begin anew from an earlier point"
        )


def _check_time(found: LogRange, time_ms: int, name: str) -> None:
    """Raise LogDoesNotFit if the transaction `after` of a range has another time than it had before."""
    if found.after_ms not in (None, time_ms):
        raise LogDoesNotFit(
            f"{name} has the transaction {found.after:#x} of {utc_text(time_ms)}, but the one after which to continue "
            f"is of {utc_text(found.after_ms)}: these are the logs of another cluster; name those of the same one, or "
            "begin anew",
            name,
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


def _last_by(files: DataFiles, names: list[str], until_ms: int, first: int) -> LogMark:
    last = LogMark(first, None)
    for name in names:
        for header in LogFile(files, name).headers():
            if header.time > until_ms:
                return last
            last = LogMark(header.zxid, header.time)
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
