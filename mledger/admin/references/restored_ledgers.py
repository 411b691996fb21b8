"""Ledger ids of a metadata backup that stand for other ledgers in the tree that it is restored into; read-only.

Every cluster gives out the same ids. A topic that lists another topic's ledgers would delete them, and a ledger whose
record is overwritten with another one's is lost.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.admin.references.ledger_audit import managed_ledger_of
from mledger.ledgers.offload import is_offloaded
from mledger.ledgers.orphans.pending_records import RECORD_FOLDERS, read_kept
from mledger.ledgers.orphans.references import (
    SCHEMAS,
    Reference,
    origin_of,
    references_in_cursor,
    references_in_schema,
    references_in_topic,
)
from mledger.ledgers.shadow_topics import shadow_source
from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.backup.restore import INSTANCE_ID, PAGE, RestoreAction, RestorePlan
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.paths import (
    DELETIONS,
    KEPT,
    MLEDGER,
    PENDING,
    deletion_path,
    is_possible_ledger,
    kept_path,
    ledger_id_from_path,
    ledger_path,
    managed_ledger_path,
    pending_path,
)
from mledger.metastore.store import MetadataReader

_LEDGER_ID = re.compile(r"\d{1,19}", re.ASCII)


class _Identity(Struct, frozen=True):
    """What tells a ledger from another one of the same id; `ctime` is 0 if its metadata has none."""

    of: str
    component: str
    managed_ledger: str
    ctime: int

    def differs(self, other: "_Identity") -> bool:
        if (self.of, self.component, self.managed_ledger) != (other.of, other.component, other.managed_ledger):
            return True
        return 0 < self.ctime != other.ctime > 0

    def __str__(self) -> str:
        return self.of or "of no topic"


class _Names(NamedTuple):
    """The ledgers that a record names, and whose it is: the managed ledger, empty for a schema."""

    managed_ledger: str
    ledgers: tuple[int, ...]


def plan_ids(plan: RestorePlan, nodes: Iterable[BackupNode]) -> RestorePlan:
    """The plan, with ledger ids continued above every ledger that a restored record names, whether it exists or not.

    A cluster that was set up since would give such an id to another topic's ledger, which the restored one would trim.
    """
    touched = set(plan.paths(RestoreAction.CREATE, RestoreAction.CHANGE))
    named = [ledger_id for node in nodes if node.path in touched for ledger_id in _named_by(node).ledgers]
    highest = max(named, default=-1)
    return plan if highest < 0 else plan.with_ids_above(highest)


async def find_foreign(
    reader: MetadataReader, nodes: Callable[[], Iterable[BackupNode]], plan: RestorePlan
) -> list[str]:
    """A line for each ledger id of the backup that is another ledger's in the tree; `nodes` reads the backup.

    All are, if the backup is of a cluster with another instance id, and the tree keeps its own: then it is one line.
    """
    other = await _other_instance(reader, nodes(), plan)
    if other:
        return [other]
    touched = set(plan.paths(RestoreAction.CREATE, RestoreAction.CHANGE))
    changed = set(plan.paths(RestoreAction.CHANGE))
    named: dict[int, tuple[str, str]] = {}
    for node in nodes():
        if node.path in touched:
            managed_ledger, ledgers = _named_by(node)
            for ledger_id in ledgers:
                named.setdefault(ledger_id, (node.path, managed_ledger))
    copied: dict[int, _Identity] = {}
    for node in nodes():
        at = _ledger_at(node.path)
        if at is not None and (node.path in changed or at in named):
            found = _identity(at, node.data, node.path)
            if found is not None:
                copied[at] = found
    ids = sorted({*named, *copied})
    removed = set(plan.paths(RestoreAction.REMOVE))
    lines: list[str] = []
    for start in range(0, len(ids), PAGE):
        lines += await _compare(reader, ids[start : start + PAGE], named, copied, removed)
    return lines


class Forgotten(Struct):
    """The ledgers to which a restore loses the way, by the path of the topic's record that has it.

    `unlisted`: the record lists them, and will not. `uploaded`: it names their copies in tiered storage, and will list
    them without these. `missing`: it will list them, and neither the tree nor the backup has them.
    """

    unlisted: dict[str, tuple[int, ...]] = field(default_factory=dict)
    uploaded: dict[str, tuple[int, ...]] = field(default_factory=dict)
    missing: dict[str, tuple[int, ...]] = field(default_factory=dict)


def ledgers_to_keep(forgotten: Forgotten) -> list[tuple[int, str]]:
    """The ledgers, each with its managed ledger, that topics' records will not list, or will not be there to list.

    Clients of a topic that goes may create it anew: its list begins above them.
    """
    return [
        (ledger_id, managed_ledger_of(path))
        for path, ledgers in forgotten.unlisted.items()
        for ledger_id in ledgers
        if is_possible_ledger(ledger_id)
    ]


async def plan_without_records(
    reader: MetadataReader, plan: RestorePlan, ledgers: Sequence[tuple[int, str]]
) -> RestorePlan:
    """The plan without pending and deletion records of the `ledgers`, and of those that are recorded as kept.

    When the backup was made, a ledger that its topic has listed since may have been pending. With the backup's list and
    that record, the topic's next owner would delete the ledger.
    """
    kept = {*(ledger_id for ledger_id, _ in ledgers), *(each.ledger_id for each in await read_kept(reader))}
    records = {path for ledger_id in kept for path in (pending_path(ledger_id), deletion_path(ledger_id))}
    steps = tuple(each for each in plan.steps if each.action is not RestoreAction.CREATE or each.path not in records)
    return replace(plan, steps=steps, skipped=plan.skipped + len(plan.steps) - len(steps))


def plan_kept_now(ledgers: Sequence[tuple[int, str]], touched: Collection[str]) -> list[tuple[int, str]]:
    """Those that can be recorded as kept before a restore that creates or removes the nodes `touched`."""
    apart = {MLEDGER, *RECORD_FOLDERS}.isdisjoint(touched)
    return [each for each in ledgers if apart and kept_path(each[0]) not in touched]


async def find_forgotten(
    reader: MetadataReader, nodes: Callable[[], Iterable[BackupNode]], plan: RestorePlan
) -> Forgotten:
    """What topics' records tell of ledgers, and will not when they are the backup's, or are removed.

    That came since the backup. Nothing else names these ledgers or copies: no reader would come to their entries.
    """
    paths = sorted(path for path in plan.paths(RestoreAction.CHANGE, RestoreAction.REMOVE) if _is_topic(path))
    there = dict.fromkeys((*paths, *filter(_is_topic, plan.paths(RestoreAction.CREATE))), _NOTHING)
    for node in nodes():
        if node.path in there:
            there[node.path] = _of_topic(node)
    removed = set(plan.paths(RestoreAction.REMOVE))
    found = Forgotten(missing=await _missing(reader, there, set(plan.paths(RestoreAction.CREATE)), removed))
    for start in range(0, len(paths), PAGE):
        page = paths[start : start + PAGE]
        for path, now in zip(page, await reader.get_many(page), strict=True):
            here = _NOTHING if now is None else _of_topic(BackupNode(path, now.data, now.version))
            listed, uploaded, _ = there[path]
            if gone := tuple(each for each in here.ledgers if each not in listed and ledger_path(each) not in removed):
                found.unlisted[path] = gone
            if copies := tuple(each for each in here.uploaded if each in listed and each not in uploaded):
                found.uploaded[path] = copies
    return found


class _OfTopic(NamedTuple):
    """What a topic's record lists, of what it names a whole copy in tiered storage, and what bookies must have."""

    ledgers: tuple[int, ...] = ()
    uploaded: tuple[int, ...] = ()
    needed: tuple[int, ...] = ()


_NOTHING = _OfTopic()


def _of_topic(node: BackupNode) -> _OfTopic:
    """What a topic's record tells; nothing if it does not parse."""
    with contextlib.suppress(RecordError):
        info = decode_managed_ledger_info(node.data, node.path).value
        uploaded = tuple(each.ledger_id for each in info.ledgers if is_offloaded(each, node.path))
        needed = (each.ledger_id for each in references_in_topic(node.path, info) if not each.may_be_gone)
        return _OfTopic(_named_by(node).ledgers, uploaded, tuple(filter(is_possible_ledger, needed)))
    return _NOTHING


async def _missing(
    reader: MetadataReader, topics: Mapping[str, _OfTopic], created: Collection[str], removed: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """The ledgers that each of the backup's `topics` needs, by its path, and that there will be no record of."""
    ids = sorted({ledger_id for topic in topics.values() for ledger_id in topic.needed})
    gone: set[int] = set()
    for start in range(0, len(ids), PAGE):
        paths = {ledger_path(ledger_id): ledger_id for ledger_id in ids[start : start + PAGE]}
        for (path, ledger_id), node in zip(paths.items(), await reader.get_many(list(paths)), strict=True):
            if path not in created and (node is None or path in removed):
                gone.add(ledger_id)
    lacking = {path: tuple(each for each in topic.needed if each in gone) for path, topic in sorted(topics.items())}
    return {path: some for path, some in lacking.items() if some}


def _is_topic(path: str) -> bool:
    name = managed_ledger_of(path)
    return bool(name) and path == managed_ledger_path(name)


async def _other_instance(reader: MetadataReader, nodes: Iterable[BackupNode], plan: RestorePlan) -> str:
    """That ledgers of another cluster would be restored, or this one's be removed, and this instance id stay."""
    touched = plan.touched
    if INSTANCE_ID in touched or all(_ledger_at(path) is None for path in touched):
        return ""
    (here,) = await reader.get_many([INSTANCE_ID])
    there = next((node.data for node in nodes if node.path == INSTANCE_ID), None)
    if here is None or there is None or here.data == there:
        return ""
    return (
        f"the ledgers are of the cluster {there.decode(errors='replace')} and this one is "
        f"{here.data.decode(errors='replace')}"
    )


async def _compare(
    reader: MetadataReader,
    ids: Sequence[int],
    named: dict[int, tuple[str, str]],
    copied: dict[int, _Identity],
    removed: set[str],
) -> list[str]:
    lines: list[str] = []
    paths = [ledger_path(ledger_id) for ledger_id in ids]
    for ledger_id, path, node in zip(ids, paths, await reader.get_many(paths), strict=True):
        here = None if node is None or path in removed else _identity(ledger_id, node.data, path)
        if here is None:
            continue
        there = copied.get(ledger_id)
        if there is not None:
            if there.differs(here):
                what = f"created at {here.ctime} and not at {there.ctime}" if here.of == there.of else f"of {here} here"
                lines.append(f"ledger {ledger_id} of {there} is another one here: {what}")
        elif here.managed_ledger not in ("", named[ledger_id][1]):
            lines.append(f"ledger {ledger_id}, which {named[ledger_id][0]} names, is of {here} here")
    return lines


def _named_by(node: BackupNode) -> _Names:
    """What the record of a topic, a cursor, a schema or one ledger names; a shadow's ledgers are its source's."""
    folder, _, last = node.path.rpartition("/")
    if folder in (PENDING, DELETIONS, KEPT):
        return _Names(node.data.decode(errors="replace"), (int(last),) if _LEDGER_ID.fullmatch(last) else ())
    name = managed_ledger_of(node.path)
    references: list[Reference] = []
    with contextlib.suppress(InvalidName, RecordError):
        if node.path.startswith(f"{SCHEMAS}/"):
            references = references_in_schema(node.path, node.data) if node.data else []
        elif name and node.path == managed_ledger_path(name):
            info = decode_managed_ledger_info(node.data, node.path).value
            references = [] if shadow_source(info) else references_in_topic(node.path, info)
        elif name:
            references = references_in_cursor(node.path, decode_managed_cursor_info(node.data, node.path).value)
    return _Names(name, tuple(each.ledger_id for each in references))


def _ledger_at(path: str) -> int | None:
    try:
        return ledger_id_from_path(path)
    except InvalidName:
        return None


def _identity(ledger_id: int, data: bytes, path: str) -> _Identity | None:
    try:
        metadata = decode_ledger_metadata(data, path)
    except RecordError:  # a damaged ledger is nobody else's for all that can be told
        return None
    origin = origin_of(ledger_id, metadata, 0)
    return _Identity(origin.of, origin.component, origin.managed_ledger, metadata.ctime)
