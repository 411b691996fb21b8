"""What an unfinished export keeps for the next run: its plan, and a record of each finished step.

Who carries out a step writes its record, after its files. A step that ran twice has two records, of which one counts.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.directory import PLAN, TABLES_AT
from mledger.snapshot.exports.files import problem_of
from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.source.splits import FileShare, KindShare, LedgerShare, Share, TopicRange, TopicShare
from mledger.snapshot.tables.node_kinds import NodeKind

Done = list[tuple[str, FileRecord]]
"""The files that a step wrote, each with its table."""

ABANDONED_MS = 24 * 3_600_000

_KEYS_BEFORE = ("topics", "files")
"""The keys of steps in plans of releases that named topics, or counted the nodes of ZooKeeper's files."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """A started export: what it exports, and its steps in order, each a JSON object.

    `time_ms` and `zxid` are its point in time; `started_ms` is when the export started. `named`: its name was given,
    not derived from its point in time.
    """

    name: str
    fingerprint: str
    time_ms: int
    zxid: int | None
    started_ms: int
    warnings: tuple[str, ...]
    steps: tuple[dict[str, Any], ...]
    named: bool = False

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()


def decode_plan(data: bytes) -> ExportPlan | None:
    """The plan, None if the data is not a plan, or one of a release whose steps had other nodes."""
    try:
        document = json.loads(data)
        if any(key in step for step in document["steps"] for key in _KEYS_BEFORE):
            return None
        return ExportPlan(**document | {"warnings": tuple(document["warnings"]), "steps": tuple(document["steps"])})
    except (ValueError, KeyError, TypeError):
        return None


def may_resume(plan: ExportPlan, fingerprint: str, *, live: bool, now_ms: int, resume_within_ms: int) -> bool:
    """Whether a started export has the same request; for a running store, also whether it is recent enough.

    One from the future is as old: a clock was set back.
    """
    return plan.fingerprint == fingerprint and (not live or abs(now_ms - plan.started_ms) <= resume_within_ms)


def is_abandoned(plan: ExportPlan | None, fingerprint: str, now_ms: int) -> bool:
    """Whether no export will take up an unfinished one: it has no plan, is a day old, or its point in time has passed.

    The last goes for one whose name was derived from its point in time, once an export with the same request does not
    resume it.
    """
    if plan is None or abs(now_ms - plan.started_ms) > ABANDONED_MS:
        return True
    return not plan.named and plan.fingerprint == fingerprint


def step_of(share: Share) -> dict[str, Any]:
    """A share as a JSON object."""
    match share:
        case TopicShare(ranges):
            return {"topic_folders": [[each.folder, each.index, each.count] for each in ranges]}
        case LedgerShare(folders):
            return {"ledgers": list(folders)}
        case KindShare(kinds):
            return {"kinds": sorted(kind.value for kind in kinds)}
        case FileShare():
            return {"paths": [share.index, share.count]}


def share_of(step: Mapping[str, Any], files: FileShare | None) -> Share:
    """The share of a step; `files` is any share of the new plan for reading ZooKeeper's files."""
    if "topic_folders" in step:
        return TopicShare(tuple(TopicRange(*each) for each in step["topic_folders"]))
    if "ledgers" in step:
        return LedgerShare(tuple(step["ledgers"]))
    if "kinds" in step:
        return KindShare(frozenset(map(NodeKind, step["kinds"])))
    assert files is not None
    return FileShare(files.files, files.plan, *step["paths"])


def encode_done(done: Done) -> str:
    """A step's files as JSON."""
    return json.dumps([[table, asdict(file)] for table, file in done])


def decode_done(text: str | bytes) -> Done | None:
    """A step's files, None if the text is not a record of them."""
    try:
        return [(table, FileRecord(**file)) for table, file in json.loads(text)]
    except (ValueError, TypeError):
        return None


class Steps:
    """The finished steps of an unfinished export in `place`."""

    def __init__(self, place: Destination) -> None:
        self.place = place
        self.tables = place.below(TABLES_AT)
        self._records = place.below("steps")

    def begin(self, plan: ExportPlan) -> None:
        """Write the plan."""
        self.place.write(PLAN, plan.encode())

    def plan(self) -> ExportPlan | None:
        """The plan, None if there is none."""
        return decode_plan(self.place.read(PLAN)) if self.place.holds(PLAN) else None

    def note(self, index: int, attempt: str, done: Done) -> None:
        """Record that a step is done; its files are there."""
        self._records.write(f"{index:05d}-{attempt}.json", encode_done(done).encode())

    def count(self) -> int:
        """How many steps are done."""
        return len({name.partition("-")[0] for name in self._names()})

    def done(self) -> dict[int, Done]:
        """The files of each step that is done and whose files have not changed."""
        found: dict[int, Done] = {}
        for name in self._names():
            index = int(name.partition("-")[0])
            done = None if index in found else decode_done(self._records.read(name))
            if done is not None and not any(problem_of(self.tables, file) for _, file in done):
                found[index] = done
        return found

    def tidy(self, kept: set[str]) -> None:
        """Remove all files but those in `kept`."""
        for path in self.tables.sizes():
            if path not in kept:
                self.tables.remove_file(path)

    def _names(self) -> list[str]:
        return [name for name in self._records.names() if name[:5].isdigit() and name.endswith(".json")]
