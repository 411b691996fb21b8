"""What an unfinished export keeps for the next run: its plan, and a record of each finished step."""

import json
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
"""The files that a step wrote, each with its table."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """A started export: what it exports, and its steps in order, each a JSON object.

    `time_ms` and `zxid` are its point in time; `started_ms` is when the export started.
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
    """The plan, None if the data is not a plan."""
    try:
        document = json.loads(data)
        return ExportPlan(**document | {"warnings": tuple(document["warnings"]), "steps": tuple(document["steps"])})
    except (ValueError, KeyError, TypeError):
        return None


def may_resume(plan: ExportPlan, fingerprint: str, *, live: bool, now_ms: int, resume_within_ms: int) -> bool:
    """Whether a started export has the same request; for a running store, also whether it is recent enough."""
    return plan.fingerprint == fingerprint and (not live or now_ms - plan.started_ms <= resume_within_ms)


def step_of(share: Share) -> dict[str, Any]:
    """A share as a JSON object."""
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
    """The share of a step; `files` is any share of the new plan for reading ZooKeeper's files."""
    if "topics" in step:
        return TopicShare(tuple(TopicRange(*each) for each in step["topics"]))
    if "ledgers" in step:
        return LedgerShare(tuple(step["ledgers"]))
    if "kinds" in step:
        return KindShare(frozenset(map(NodeKind, step["kinds"])))
    assert files is not None
    return FileShare(files.files, files.plan, *step["files"])


class Steps:
    """The finished steps of an unfinished export in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tables = directory / "tables"

    def begin(self, plan: ExportPlan) -> None:
        """Write the plan to disk."""
        self.tables.mkdir(parents=True, exist_ok=True)
        (self.directory / "steps").mkdir(exist_ok=True)
        replace_file(self.directory / "plan.json", plan.encode())

    def plan(self) -> ExportPlan | None:
        """The plan on disk, None if there is none."""
        try:
            return decode_plan((self.directory / "plan.json").read_bytes())
        except OSError:
            return None

    def note(self, index: int, done: Done) -> None:
        """Record that a step is done; its files are on disk."""
        replace_file(self._record(index), json.dumps([[table, asdict(file)] for table, file in done]).encode())

    def done(self, index: int) -> Done | None:
        """The files of a step, None if it is not done or one of its files has changed."""
        try:
            found = [(table, FileRecord(**file)) for table, file in json.loads(self._record(index).read_bytes())]
        except (OSError, ValueError, TypeError):
            return None
        return None if any(problem_of(local_place(self.tables), file) for _, file in found) else found

    def tidy(self, kept: set[str]) -> None:
        """Remove all files but those in `kept`."""
        for path in [path for path in self.tables.rglob("*") if path.is_file()]:
            if path.relative_to(self.tables).as_posix() not in kept:
                path.unlink()

    def _record(self, index: int) -> Path:
        return self.directory / "steps" / f"{index:05d}.json"
