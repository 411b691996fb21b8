"""Chooses the files of a ZooKeeper server that give its tree at a zxid or time, and checks that they suffice.

These are the newest snapshot that is complete and settled at that point, and all logs from it to the point. Nothing is
guessed: if files are missing or the point is not covered, an error says what is needed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from mledger.snapshot.zookeeper_files.errors import MissingLog, NoSnapshotFile, TruncatedFile, ZxidNotCovered
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile, snapshot_zxid
from mledger.snapshot.zookeeper_files.transaction_log import LogFile, follows, log_zxid, missing_log


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read: a snapshot, then `logs` in order, for the tree as it was after transaction `zxid`.

    `time_ms` is the time of that transaction (leader's clock), None if no log here has it. `settled` is the zxid from
    which on the snapshot is exact, None if the file does not say.
    """

    snapshot: str
    snapshot_zxid: int
    settled: int | None
    logs: tuple[str, ...]
    zxid: int
    time_ms: int | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogPoint:
    """A point between two transactions: the last before it (-1: none), its time, and the next in the same file."""

    zxid: int
    time_ms: int | None
    next_zxid: int | None
    torn: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete snapshot file; `settled` is the highest zxid of which it may hold changes, None if that is unknown."""

    name: str
    zxid: int
    settled: int | None
    recorded: int | None  # `settled` as the file itself has it


class DataDirectory:
    """A server's files. It reads names, the ends of snapshots and the headers of log records, and changes nothing.

    `without` names snapshot files to ignore, for example a corrupt one: an older snapshot and the logs may suffice.
    """

    def __init__(self, files: DataFiles, *, without: Collection[str] = ()) -> None:
        self.files = files
        names = files.names()
        self.snapshots = _by_zxid(names, snapshot_zxid)
        self.logs = _by_zxid(names, log_zxid)
        self._usable = [name for name in self.snapshots if name not in without]
        self._looked_at: dict[str, Candidate | None] = {}
        if not self._usable:
            raise NoSnapshotFile(
                f"{files.where} has no snapshot file of ZooKeeper (snapshot.<zxid>): give its dataDir, or the directory"
                " version-2 in it"
            )

    def plan(self, *, zxid: int | None = None, time_ms: int | None = None) -> ReadPlan:
        """The files that give the tree after transaction `zxid`, or at the time `time_ms`; by default the newest tree.

        A zxid between two transactions means the first of them. A time means the last transaction before the first
        later one; if it is past the end of the files, it means their end.

        Raises:
            ZxidNotCovered: the files do not reach that point.
            MissingLog: a log between the snapshot and the point is missing.
            TruncatedFile, CorruptFile: a required file is damaged.
        """
        if zxid is not None and time_ms is not None:
            raise ValueError("a zxid or a time, not both")
        if time_ms is not None:
            point = self._point_at_time(time_ms)
        elif zxid is not None:
            point = self._point_at_zxid(zxid)
        else:
            point = self._end()
        chosen = choose_snapshot(self._whole(point.zxid), point.zxid, newest=point.next_zxid is None)
        warnings = [f"{name} is incomplete and is ignored" for name, it in self._looked_at.items() if it is None]
        if zxid is None and point.time_ms is None:
            warnings.append(
                f"no transaction log here goes on after {chosen.name}, so the tree is as old as that file; if the "
                "server has a dataLogDir, give it as the option logs"
            )
        return ReadPlan(
            chosen.name,
            chosen.zxid,
            chosen.recorded,
            choose_logs(self.logs, chosen, point.zxid),
            point.zxid,
            point.time_ms,
            (*warnings, *([point.torn] if point.torn else [])),
        )

    def _whole(self, until: int | None = None) -> Iterator[Candidate]:
        """The complete snapshots up to zxid `until`, newest first; each file is read only when it is its turn.

        Raises TruncatedFile, for the last file read, if none is complete.
        """
        cut: TruncatedFile | None = None
        found = False
        for name in reversed(self._usable):
            if until is not None and zxid_of(name) > until:
                continue
            if name not in self._looked_at:
                try:
                    self._looked_at[name] = self._candidate(name)
                except TruncatedFile as error:
                    self._looked_at[name] = None
                    cut = error
            candidate = self._looked_at[name]
            if candidate:
                found = True
                yield candidate
        if cut and not found:
            raise cut

    def _candidate(self, name: str) -> Candidate:
        """The settled zxid that the file records; else that of the next snapshot.

        A server starts a snapshot only when the one before is written, so its zxid bounds what the earlier one holds.
        """
        file = SnapshotFile(self.files, name)
        recorded = file.tail().settled(file.zxid)
        later = [zxid_of(other) for other in self.snapshots if zxid_of(other) > file.zxid]
        return Candidate(name, file.zxid, min(later, default=None) if recorded is None else recorded, recorded)

    def _end(self) -> LogPoint:
        # In this order: a server logs a transaction before it applies it, so the logs reach past any snapshot seen.
        newest = next(self._whole()).zxid
        self.logs = _by_zxid(self.files.names(), log_zxid)
        point = self._last_point(self.logs)
        return LogPoint(newest, None, None, point.torn) if newest > point.zxid else point

    def _last_point(self, logs: Iterable[str], until: int | None = None) -> LogPoint:
        """The last transaction in these files (up to zxid `until`); -1 if they hold none."""
        torn = ""
        for name in reversed(list(logs)):
            point = self._scan(name, until=until)
            torn = torn or point.torn
            if point.zxid >= 0:
                return LogPoint(point.zxid, point.time_ms, point.next_zxid, torn)
        return LogPoint(-1, None, None, torn)

    def _scan(self, name: str, *, until: int | None = None, until_ms: int | None = None) -> LogPoint:
        """The last transaction of a file that is not past a zxid or a time."""
        log = LogFile(self.files, name)
        zxid, time = -1, None
        for header in log.headers():
            if (until is not None and header.zxid > until) or (until_ms is not None and header.time > until_ms):
                return LogPoint(zxid, time, header.zxid)
            zxid, time = header.zxid, header.time
        torn = ""
        if log.torn_at is not None:
            torn = f"{name} ends at byte {log.torn_at} within an incompletely written transaction, after {zxid:#x}"
        return LogPoint(zxid, time, None, torn)

    def _point_at_zxid(self, zxid: int) -> LogPoint:
        point = self._last_point([name for name in self.logs if zxid_of(name) <= zxid], until=zxid)
        newest = next((one.zxid for one in self._whole(zxid)), -1)
        if newest > point.zxid:
            point = LogPoint(newest, None, point.next_zxid, point.torn)
        later = [name for name in self.logs if zxid_of(name) > zxid]
        following = zxid_of(later[0]) if point.next_zxid is None and later else point.next_zxid
        if point.zxid != zxid:
            if following is None:
                raise ZxidNotCovered(
                    f"zxid {zxid:#x} is beyond the files in {self.files.where}, which end at {max(point.zxid, 0):#x}"
                )
            if point.zxid >= 0 and not follows(point.zxid, following):
                raise missing_log(point.zxid, following, later[0] if later else "the log")
        return LogPoint(point.zxid, point.time_ms, following, "" if following else point.torn)

    def _point_at_time(self, time_ms: int) -> LogPoint:
        """The last transaction before the first one made after `time_ms`."""
        begun, after = self._logs_around(time_ms)
        point = self._scan(begun, until_ms=time_ms)
        if point.next_zxid is not None:
            return point
        if after is not None:
            if not follows(point.zxid, zxid_of(after)):
                raise missing_log(point.zxid, zxid_of(after), after)
            return LogPoint(point.zxid, point.time_ms, zxid_of(after))
        newest = next(self._whole()).zxid
        if newest > point.zxid:
            raise MissingLog(
                f"the logs end at zxid {point.zxid:#x}, but the newest snapshot is of {newest:#x}: no log has the time "
                "of the transactions in between; give a zxid instead"
            )
        return point

    def _logs_around(self, time_ms: int) -> tuple[str, str | None]:
        """The last log that begins by that time, and the one after it, if any."""
        begun = None
        for name in self.logs:
            first = next(LogFile(self.files, name).headers(), None)
            if first is None:
                continue
            if first.time > time_ms:
                if begun is None:
                    break
                return begun, name
            begun = name
        if begun is None:
            raise ZxidNotCovered(
                f"no transaction log in {self.files.where} reaches back to that time: give a later time, or a zxid"
            )
        return begun, None


def zxid_of(name: str) -> int:
    """The zxid in the name of a snapshot or log file."""
    return snapshot_zxid(name) or log_zxid(name) or 0


def _by_zxid(names: Iterable[str], zxid: Callable[[str], int | None]) -> list[str]:
    return sorted((name for name in names if zxid(name) is not None), key=zxid_of)


def choose_snapshot(candidates: Iterable[Candidate], zxid: int, *, newest: bool) -> Candidate:
    """The newest snapshot that is exact at `zxid`; `candidates` are those that are not newer, newest first.

    `newest` says that no transaction after `zxid` is known.

    Raises:
        ZxidNotCovered: all snapshots are newer, or were still being written then.
        MissingLog: a snapshot would suffice with logs that are missing.
    """
    oldest = None
    for oldest in candidates:
        if oldest.settled is None and newest:
            return oldest
        if oldest.settled is not None and oldest.settled <= zxid:
            return oldest
    if oldest is None:
        raise ZxidNotCovered(f"no snapshot here is as old as zxid {max(zxid, 0):#x}: choose a later point")
    needed = "one after it was written" if oldest.settled is None else f"zxid {oldest.settled:#x}"
    if newest:
        raise MissingLog(
            f"{oldest.name} was written while transactions were applied: it needs the logs up to {needed}, but these "
            f"end at {zxid:#x}; add the later logs",
            oldest.name,
        )
    raise ZxidNotCovered(
        f"{oldest.name} was still being written at zxid {zxid:#x}: its earliest exact point is {needed}; choose a "
        "later point, or add an older snapshot",
        oldest.name,
    )


def choose_logs(logs: Iterable[str], chosen: Candidate, zxid: int) -> tuple[str, ...]:
    """The logs that hold the transactions after the snapshot up to `zxid`.

    Raises:
        MissingLog: they begin too late.
    """
    if chosen.zxid >= zxid:
        return ()
    needed = [name for name in logs if zxid_of(name) <= zxid]
    starts = [index for index, name in enumerate(needed) if zxid_of(name) <= chosen.zxid + 1]
    if starts:
        return tuple(needed[starts[-1] :])
    first = zxid_of(needed[0]) if needed else zxid
    if not needed or not follows(chosen.zxid, first):
        raise missing_log(chosen.zxid, first, needed[0] if needed else "nothing")
    return tuple(needed)
