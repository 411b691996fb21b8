"""What an unfinished export keeps for the next try: its plan, and a record of each step that is done."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mledger.metastore.runtime.durable_files import replace_file
from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.files import problem_of
from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.source.splits import FileShare, KindShare, LedgerShare, Share, TopicRange, TopicShare
from mledger.snapshot.tables.node_kinds import NodeKind

Done = list[tuple[str, FileRecord]]
"""The files that a step wrote, with their tables."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """An export that was begun: what it is of, and the steps it takes, in order; each is a JSON object.

    `time_ms` and `zxid` are the point that it stands for; `started_ms` is when it was begun.
    """

    name: str
    fingerprint: str
    time_ms: int
    zxid: int | None
    started_ms: int
    warnings: tuple[str, ...]
    steps: tuple[dict[str, Any], ...]

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()


def decode_plan(data: bytes) -> ExportPlan | None:
    """The plan, None if the data is none."""
    try:
        document = json.loads(data)
        return ExportPlan(**document | {"warnings": tuple(document["warnings"]), "steps": tuple(document["steps"])})
    except (ValueError, KeyError, TypeError):
        return None


def may_resume(plan: ExportPlan, fingerprint: str, *, live: bool, now_ms: int, resume_within_ms: int) -> bool:
    """Whether an export that was begun is of the same thing; what is read live must not be too old."""
    return plan.fingerprint == fingerprint and (not live or now_ms - plan.started_ms <= resume_within_ms)


def step_of(share: Share) -> dict[str, Any]:
    """A share of a reading as a JSON object."""
    match share:
        case TopicShare(ranges):
            return {"topics": [[each.folder, each.first, each.last] for each in ranges]}
        case LedgerShare(folders):
            return {"ledgers": list(folders)}
        case KindShare(kinds):
            return {"kinds": sorted(kind.value for kind in kinds)}
        case FileShare():
            return {"files": [share.index, share.count]}


def share_of(step: Mapping[str, Any], files: FileShare | None) -> Share:
    """The share that a step is; `files`: any share of the files read, planned anew."""
    if "topics" in step:
        return TopicShare(tuple(TopicRange(*each) for each in step["topics"]))
    if "ledgers" in step:
        return LedgerShare(tuple(step["ledgers"]))
    if "kinds" in step:
        return KindShare(frozenset(map(NodeKind, step["kinds"])))
    assert files is not None
    return FileShare(files.files, files.plan, *step["files"])


class Steps:
    """The steps done of an unfinished export in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tables = directory / "tables"

    def begin(self, plan: ExportPlan) -> None:
        """Have the plan on disk."""
        self.tables.mkdir(parents=True, exist_ok=True)
        (self.directory / "steps").mkdir(exist_ok=True)
        replace_file(self.directory / "plan.json", plan.encode())

    def plan(self) -> ExportPlan | None:
        """The plan that was begun."""
        try:
            return decode_plan((self.directory / "plan.json").read_bytes())
        except OSError:
            return None

    def note(self, index: int, done: Done) -> None:
        """A step is done: its files are on disk."""
        replace_file(self._record(index), json.dumps([[table, asdict(file)] for table, file in done]).encode())

    def done(self, index: int) -> Done | None:
        """The files of a step, None if it is not done, or one of them is not as it was."""
        try:
            found = [(table, FileRecord(**file)) for table, file in json.loads(self._record(index).read_bytes())]
        except (OSError, ValueError, TypeError):
            return None
        return None if any(problem_of(local_place(self.tables), file) for _, file in found) else found

    def tidy(self, kept: set[str]) -> None:
        """Remove what no finished step wrote."""
        for path in [path for path in self.tables.rglob("*") if path.is_file()]:
            if path.relative_to(self.tables).as_posix() not in kept:
                path.unlink()

    def _record(self, index: int) -> Path:
        return self.directory / "steps" / f"{index:05d}.json"


def now_ms() -> int:
    """Ms since 1970."""
    return time.time_ns() // 1_000_000
