"""Restores a backup into a tree: plans the changes node by node, then writes them.

- A restore never writes ephemeral nodes, nor ZooKeeper's own nodes. A node that already holds the backup's data is
  left alone, whatever its version. A node that the backup lacks stays, unless it is to be removed.
- A topic's record above a cursor that is created or changed is written too, with the data that it has. That fences an
  owner that was frozen for longer than its session: it would trim what the cursor needs now.
- The record of a ledger never goes back: one that tells more than the backup's of the same ledger stays. It may name
  bookies to which the ledger has moved since, and a closed ledger that is open again would be closed without what
  they hold.
- Versions start anew: a created node is at version 0, a changed node is one version up.
- The cluster's instance id is written last: bookies that still run would delete what is not restored yet. If the tree
  has it already and ledgers are restored, it is removed first.
- Ledger ids continue well above every ledger of the backup and of the tree. The counter only moves forward. Where the
  gap is too large, the longer ids begin, as in BookKeeper when the short ones are used up (formats.md). So they do
  where the cluster's counter was lost: how many ids it has given out since the backup is not known, and bookies may
  have entries of those ledgers still, which a recovery of another ledger of such an id would take for its own.
"""

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.backup.tree_reader import ZOOKEEPERS_OWN, ignore_count, walk
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import InvalidName, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.paths import LEDGERS, OWNERS, ledger_id_from_path, topic_above
from mledger.metastore.store import Create, Delete, MetadataReader, MetadataStore, Node, Operation, Put
from mledger.metastore.write_verification import multi_own

PAGE = 500
BATCH_OPERATIONS = 200
BATCH_BYTES = 256 << 10
ID_MARGIN = 10_000
"""Ids left free above the highest ledger: such ledgers may have been deleted, with entries still on bookies."""

INSTANCE_ID = f"{LEDGERS}/INSTANCEID"

_HIGH = re.compile(rf"{LEDGERS}/idgen-long/HOB-(\d{{10}})", re.ASCII)
_LIVE = (
    (f"{LEDGERS}/available", "bookie", LEDGERS),
    (OWNERS, "owner", ""),
    ("/loadbalance", "broker", ""),
    ("/namespace", "broker", ""),
)


class RestoreAction(enum.Enum):
    """What a restore does with a node."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    FENCE = "fence"  # it is a topic's, and is written as it is
    KEEP = "keep"  # it is not in the backup
    NEWER = "newer"  # it is a ledger's, and tells more than the backup's
    SAME = "same"
    SKIP = "skip"  # it is never restored


_WRITTEN = (RestoreAction.CREATE, RestoreAction.CHANGE, RestoreAction.FENCE)


class RestoreStep(Struct, frozen=True):
    """What a restore does with the node at `path`, which is at `version` now (None: it does not exist)."""

    path: str
    action: RestoreAction
    version: int | None = None


class RestorePlan(Struct, frozen=True):
    """All that changes, and what stays although the backup lacks it; `same` nodes hold what the backup has.

    `ids_above`: ledger ids must continue above this one; None where nothing that names a ledger is restored.
    `highest`: the highest id that was in use, as far as backup and tree tell.
    `identity`: the version of the cluster's instance id, if it is the backup's and must be away while ledgers are
    restored.
    """

    steps: tuple[RestoreStep, ...]
    same: int
    skipped: int
    ids_above: int | None
    identity: int | None = None
    highest: int = -1

    def paths(self, *actions: RestoreAction) -> list[str]:
        """The paths of the steps with one of `actions`."""
        return [step.path for step in self.steps if step.action in actions]

    def with_ids_above(self, ledger_id: int) -> "RestorePlan":
        """The plan, with ledger ids continued above this one, too."""
        above = ledger_id if self.ids_above is None else max(self.ids_above, ledger_id)
        return replace(self, ids_above=above, highest=max(self.highest, ledger_id))

    @property
    def touched(self) -> list[str]:
        """The paths of the nodes that are written or removed."""
        return self.paths(*_WRITTEN, RestoreAction.REMOVE)

    @property
    def altered(self) -> list[str]:
        """The paths of the nodes that are there now and that the restore, or its interruption, leaves otherwise."""
        changed = self.paths(RestoreAction.CHANGE, RestoreAction.REMOVE)
        return changed if self.identity is None else [*changed, INSTANCE_ID]

    @property
    def pending(self) -> bool:
        """Whether anything is to be written."""
        return any(step.action not in (RestoreAction.KEEP, RestoreAction.NEWER) for step in self.steps)


class Live(Struct, frozen=True):
    """A live user of the nodes that a restore would change."""

    what: str
    path: str

    def __str__(self) -> str:
        return f"a live {self.what} ({self.path})"


def plan_node(node: BackupNode, now: Node | None) -> RestoreAction:
    """What a restore does with a node of the backup that is `now` in the tree (None: it does not exist)."""
    if node.ephemeral or (now is not None and now.stat.ephemeral_owner) or is_below(node.path, ZOOKEEPERS_OWN):
        return RestoreAction.SKIP
    if now is None:
        return RestoreAction.CREATE
    if now.data == node.data:
        return RestoreAction.SAME
    return RestoreAction.NEWER if _is_newer_ledger(node, now) else RestoreAction.CHANGE


def _is_newer_ledger(node: BackupNode, now: Node) -> bool:
    """Whether a node of the backup is the earlier record of the ledger that is in the tree."""
    if ledger_id_at(node.path) is None:
        return False
    try:
        then, here = decode_ledger_metadata(node.data, node.path), decode_ledger_metadata(now.data, node.path)
    except RecordError:
        return False
    return here.follows(then)


def plan_others(others: Sequence[BackupNode], *, remove: bool, apart: bool = False) -> list[RestoreStep]:
    """What a restore does with the tree's nodes that the backup lacks, parents before their children.

    A node above one that stays (an ephemeral node, say) stays too, and so do the counters of ledger ids. `apart`: the
    ledgers have a store of their own, and all of it stays: ledgers and bookies may be another cluster's.
    """
    stay: set[str] = set()
    for node in reversed(others):
        others_own = apart and is_below(node.path, LEDGERS)
        if node.ephemeral or node.path in stay or is_counter(node.path) or others_own:
            stay |= {node.path, node.path.rpartition("/")[0]}
    return [
        RestoreStep(
            node.path, RestoreAction.REMOVE if remove and node.path not in stay else RestoreAction.KEEP, node.version
        )
        for node in others
        if not node.ephemeral
    ]


def plan_scope(start: str, copied: str) -> str:
    """The part of the tree that a restore at and below `start` is about, from a backup that begins at `copied`.

    What the backup does not cover is no difference to it, and nothing to remove. NodeNotFound where it covers nothing.
    """
    if is_below(copied, start):
        return copied
    if is_below(start, copied):
        return start
    raise NodeNotFound(f"the backup begins at {copied}: it holds nothing of {start}, name a path that it holds", start)


def is_counter(path: str) -> bool:
    """Whether ledger ids are drawn below the node at `path`."""
    return is_below(path, f"{LEDGERS}/idgen") or is_below(path, f"{LEDGERS}/idgen-long")


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return folder == "/" or path == folder or path.startswith(f"{folder}/")


def ledger_id_at(path: str) -> int | None:
    """The ledger whose record is at `path`, None for another node."""
    if not is_below(path, LEDGERS):
        return None
    try:
        return ledger_id_from_path(path)
    except InvalidName:
        return None


async def plan_restore(
    reader: MetadataReader,
    nodes: Iterable[BackupNode],
    start: str = "/",
    *,
    remove: bool = False,
    apart: bool = False,
    count: Callable[[int], None] = ignore_count,
) -> RestorePlan:
    """Plan what restoring `nodes` at and below `start` would change in the tree; write nothing.

    `remove` and `apart` as in `plan_others`.
    """
    steps: list[RestoreStep] = []
    wanted: set[str] = set()
    identity: int | None = None
    topics: dict[str, int] = {}  # that hold the backup's data
    same = skipped = 0
    for page in _pages(node for node in nodes if is_below(node.path, start)):
        now = await reader.get_many([node.path for node in page])
        for node, there in zip(page, now, strict=True):
            wanted.add(node.path)
            action = plan_node(node, there)
            same, skipped = same + (action is RestoreAction.SAME), skipped + (action is RestoreAction.SKIP)
            if action not in (RestoreAction.SAME, RestoreAction.SKIP):
                steps.append(RestoreStep(node.path, action, None if there is None else there.version))
            if action is RestoreAction.SAME and node.path == INSTANCE_ID and there is not None:
                identity = there.version
            if action is RestoreAction.SAME and there is not None and topic_above(f"{node.path}/cursor"):
                topics[node.path] = there.version
        count(len(page))
    to_fence = sorted({topic_above(step.path) for step in steps if step.action in _WRITTEN} & topics.keys())
    steps += [RestoreStep(path, RestoreAction.FENCE, topics[path]) for path in to_fence]
    same -= len(to_fence)
    others: list[BackupNode] = []
    async for found in walk(reader, start, (ZOOKEEPERS_OWN,)):
        others += [node for node in found if node.path not in wanted and node.path != "/"]
        count(len(found))
    others.sort(key=lambda node: node.path)
    steps += plan_others(others, remove=remove, apart=apart)
    created = [step.path for step in steps if step.action is RestoreAction.CREATE]
    restored = any(_highest_id(path) >= 0 for path in created)
    ids = [_highest_id(path) for path in (*wanted, *(node.path for node in others))]
    if not restored:
        return RestorePlan(tuple(steps), same, skipped, None)
    return RestorePlan(tuple(steps), same, skipped, max(ids) + ID_MARGIN, identity, max(ids))


async def find_live(reader: MetadataReader, touched: Collection[str]) -> list[Live]:
    """Registered bookies, if ledgers' nodes are `touched`; owners and brokers, if others are."""
    ledgers = any(is_below(path, LEDGERS) for path in touched)
    others = any(not is_below(path, LEDGERS) for path in touched)
    found: list[Live] = []
    for folder, what, only in _LIVE:
        if ledgers if only else others:
            async for page in walk(reader, folder):
                found += [Live(what, node.path) for node in page if node.ephemeral]
    return found


async def restore(
    store: MetadataStore,
    plan: RestorePlan,
    nodes: Callable[[], Iterable[BackupNode]],
    count: Callable[[int], None] = ignore_count,
) -> None:
    """Carry out `plan`; `nodes` reads the nodes again from which the plan was made.

    Ledger ids are moved first: no ledger of the backup exists before the counter is above it. Then nodes are written
    in batches, parents first, then come removals, and the cluster's instance id is the last: without theirs, bookies
    neither register nor delete ledgers that are not restored yet. After an interruption, the same restore continues
    where it stopped. Raises BadVersion or NodeExists when somebody else writes to the tree.
    """
    versions = {step.path: step.version for step in plan.steps if step.action in _WRITTEN}
    if plan.identity is not None:
        await store.delete(INSTANCE_ID, plan.identity)
        versions[INSTANCE_ID] = None
    await _ensure_parents(store, versions)
    counters = {path: version for path, version in versions.items() if path == LEDGERS or is_counter(path)}
    identity = {path: version for path, version in versions.items() if path == INSTANCE_ID}
    if counters:
        await _write_nodes(store, nodes(), counters, count)
    if plan.ids_above is not None:
        await raise_ledger_ids(store, plan.ids_above, plan.highest)
    others = {path: version for path, version in versions.items() if path not in counters and path not in identity}
    await _write_nodes(store, nodes(), others, count)
    removals = [
        Delete(step.path, step.version)
        for step in reversed(plan.steps)
        if step.action is RestoreAction.REMOVE and step.version is not None
    ]
    for start in range(0, len(removals), BATCH_OPERATIONS):
        await _write(store, removals[start : start + BATCH_OPERATIONS], count)
    if identity:
        await _write_nodes(store, nodes(), identity, count)


async def _write_nodes(
    store: MetadataStore,
    nodes: Iterable[BackupNode],
    versions: Mapping[str, int | None],
    count: Callable[[int], None],
) -> None:
    """Create or change, in order, those of `nodes` that are in `versions`."""
    batch: list[Operation] = []
    size = 0
    for node in nodes:
        if node.path not in versions:
            continue
        version, added = versions[node.path], len(node.data) + len(node.path)
        if len(batch) >= BATCH_OPERATIONS or (batch and size + added > BATCH_BYTES):
            await _write(store, batch, count)
            batch, size = [], 0
        size += added
        if version is None:
            batch.append(Create(node.path, node.data, acl=node.acl))
        else:
            batch.append(Put(node.path, node.data, version))
    await _write(store, batch, count)


async def raise_ledger_ids(store: MetadataStore, above: int, highest: int) -> None:
    """Make the cluster's next ledger id greater than `above`; the counter never moves back.

    A counter that has not passed `highest`, an id that was in use, is not the one that gave it out. That one may have
    given out any short id since the backup: the longer ids begin.
    """
    ids = LedgerStore(store)
    if await ids.next_id() > highest and await ids.next_id_above(above) is not None:
        return
    folder = f"{LEDGERS}/idgen-long"
    (names,) = await store.children_many([folder])
    high = (above >> 32) + 1
    if f"HOB-{high:010d}" not in (names or ()):
        await store.create(f"{folder}/HOB-{high:010d}", parents=True)


async def _ensure_parents(store: MetadataStore, paths: Collection[str]) -> None:
    """Create the parents that neither the backup nor the tree has: the backup may hold only a part of a tree."""
    parents = {path.rpartition("/")[0] for path in paths} - set(paths) - {""}
    missing = [
        path for path, node in zip(sorted(parents), await store.get_many(sorted(parents)), strict=True) if node is None
    ]
    for path in missing:
        try:
            await store.create(path, parents=True)
        except NodeExists:
            continue


async def _write(store: MetadataStore, operations: Sequence[Operation], count: Callable[[int], None]) -> None:
    """Write some operations, those of ledgers apart from the others: they may be in two stores."""
    for ledgers in (True, False):
        some = [operation for operation in operations if is_below(operation.path, LEDGERS) is ledgers]
        if some:
            await multi_own(store, some)
    count(len(operations))


def _pages(nodes: Iterable[BackupNode]) -> Iterable[list[BackupNode]]:
    page: list[BackupNode] = []
    for node in nodes:
        page.append(node)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


def _highest_id(path: str) -> int:
    """The highest ledger id that the node at `path` shows to be in use, -1 for none."""
    counter = _HIGH.fullmatch(path)
    if counter is not None:
        return ((int(counter[1]) + 1) << 32) - 1
    found = ledger_id_at(path)
    return -1 if found is None else found
