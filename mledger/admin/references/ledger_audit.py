"""Compares all ledgers with all references to them, and finds orphans and dangling references; read-only.

A concurrent change is not a finding: ledgers are listed before references are read, and every candidate is checked a
second time, with the records of R10 read both before and after its topic's record.

Several clusters of Pulsar can keep their ledgers in one cluster of BookKeeper, with a metadata store of its own. A
ledger does not say of which cluster its topic is: there, one that nothing names here is never taken for an orphan.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct

from mledger.admin.references.reader import (
    ListedLedger,
    References,
    UnreadableRecord,
    list_origins,
    read_origins,
    read_references,
    read_references_of,
)
from mledger.admin.references.unlisted_ledgers import UnlistedReader, is_data
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cursors.compaction import compacted_ledger
from mledger.cursors.persistence.ledger_state import CursorLedgerUnavailable
from mledger.cursors.persistence.state_reader import StateLedger, find_state
from mledger.errors import CursorRecoveryFailed
from mledger.ledgers.orphans.references import SCHEMA, LedgerOrigin, Naming, Reference, find_dangling, find_orphans
from mledger.metastore.errors import InvalidName, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import managed_ledger_depth, managed_ledger_path
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import has_ledgers_apart

APART = "the ledgers have a metadata store of their own, so it may be another cluster's"
Progress = Callable[[str, int], None]


def ignore_progress(what: str, count: int) -> None:
    """A Progress that does nothing."""


class Unnamed(Struct, frozen=True):
    """A ledger that nothing seems to name, and why it does not count as an orphan."""

    origin: LedgerOrigin
    reason: str


class ReferenceAudit(Struct, frozen=True):
    """The findings; `listed` are all ledgers, `young` and `other` are not findings (see `Orphans`).

    `unlisted` are ledgers with entries that nothing names because their topic's list has lost them, or their topic is
    gone. `undecided` are those that something may name, as far as is known now.
    """

    listed: tuple[ListedLedger, ...]
    orphans: tuple[LedgerOrigin, ...]
    unlisted: tuple[Unnamed, ...]
    undecided: tuple[Unnamed, ...]
    young: tuple[LedgerOrigin, ...]
    other: tuple[LedgerOrigin, ...]
    dangling: tuple[Reference, ...]
    unreadable: tuple[UnreadableRecord, ...]


class LedgerAuditor:
    """Audits a cluster's ledgers; passwords come from the ledgers' own metadata."""

    def __init__(self, store: MetadataReader, bookkeeper: BookKeeperReader) -> None:
        self._store, self._bookkeeper = store, bookkeeper
        self._doubt = APART if has_ledgers_apart(store.url) else ""
        self.unlisted = UnlistedReader(store, bookkeeper).unlisted

    async def audit(self, now_ms: int, min_age_ms: int = 0, progress: Progress = ignore_progress) -> ReferenceAudit:
        """Audit all ledgers and all references. `now_ms` and `min_age_ms` as in `find_orphans`. StoreUnavailable."""
        unreadable: list[UnreadableRecord] = []
        listed = await list_origins(self._store, unreadable, lambda count: progress("ledgers", count))
        references = await self._with_states(
            await read_references(self._store, lambda count: progress("topics", count))
        )
        named = references.ledgers
        found = find_orphans((each.origin for each in listed), named, now_ms=now_ms, min_age_ms=min_age_ms)
        unnamed, undecided = await self.confirm_orphans(found.candidates, references.unreadable)
        kept = references.kept
        unnamed += tuple(each.origin for each in listed if each.origin.ledger_id in kept and is_data(each.origin))
        unlisted = await self.unlisted(unnamed, kept)
        existing = {each.origin.ledger_id for each in listed}
        dangling = await self.confirm_dangling(find_dangling(references.found, existing))
        return ReferenceAudit(
            listed=tuple(listed),
            orphans=tuple(each for each in unnamed if each.ledger_id not in unlisted),
            unlisted=tuple(Unnamed(each, unlisted[each.ledger_id]) for each in unnamed if each.ledger_id in unlisted),
            undecided=undecided,
            young=found.young,
            other=found.other,
            dangling=dangling,
            unreadable=(*unreadable, *references.unreadable),
        )

    async def references_of(self, managed_ledger: str) -> References:
        """What one managed ledger references now, including the last state of compaction's cursor."""
        return await self._with_states(await read_references_of(self._store, managed_ledger))

    async def _with_states(self, references: References) -> References:
        """`references` with the compacted topics' ledgers that only cursor states name; unreadable states add none."""
        for path, record in references.compactions:
            with contextlib.suppress(CursorRecoveryFailed):
                ledger_id = compacted_ledger(
                    record, await find_state(self._open_peeked, self._store.sync, record.cursors_ledger_id)
                )
                if ledger_id is not None:
                    references.found.append(Reference(ledger_id, Naming.COMPACTED, path))
        return references

    async def _open_peeked(self, ledger_id: int) -> StateLedger:
        return (await self._bookkeeper.peek(ledger_id, None)).decided().reader

    async def confirm_orphans(
        self, candidates: Sequence[LedgerOrigin], unreadable: Sequence[UnreadableRecord] = ()
    ) -> tuple[tuple[LedgerOrigin, ...], tuple[Unnamed, ...]]:
        """Those of `candidates` that are orphans now, and those that may or may not be.

        `unreadable` are records that could not be read when the candidates were found: a ledger that one of them may
        name is left undecided.
        """
        by_name: dict[str, list[LedgerOrigin]] = defaultdict(list)
        for origin in candidates:
            by_name[origin.managed_ledger].append(origin)
        orphans: list[LedgerOrigin] = []
        undecided: list[Unnamed] = []
        for name, group in sorted(by_name.items()):
            if not name:
                named, doubt = await self._named_by_schemas(group, unreadable)
            else:
                named, doubt = await self._named_by(name, with_states=any(origin.cursor for origin in group))
            left = [origin for origin in group if origin.ledger_id not in named]
            there = {
                each.origin.ledger_id
                for each in await read_origins(self._store, [origin.ledger_id for origin in left], [])
            }
            left = [origin for origin in left if origin.ledger_id in there]
            if doubt := doubt or self._doubt:
                undecided += [Unnamed(origin, doubt) for origin in left]
            else:
                orphans += left
        return tuple(sorted(orphans, key=lambda origin: origin.ledger_id)), tuple(undecided)

    async def confirm_dangling(self, candidates: Sequence[Reference]) -> tuple[Reference, ...]:
        """Those of `candidates` whose ledger does not exist and whose record still names it.

        A ledger is created before a record names it, and never created again: one that does not exist at the first look
        and is still named at the second is lost.
        """
        ids = sorted({each.ledger_id for each in candidates})
        there = {each.origin.ledger_id for each in await read_origins(self._store, ids, [])}
        left = [each for each in candidates if each.ledger_id not in there]
        still: set[Reference] = set()
        for name in sorted({managed_ledger_of(each.path) for each in left} - {""}):
            still.update((await self.references_of(name)).found)
        schemas = [each for each in left if not managed_ledger_of(each.path)]
        if schemas:
            still.update((await read_references(self._store)).found)
        return tuple(each for each in left if each in still)

    async def _named_by(self, managed_ledger: str, *, with_states: bool) -> tuple[set[int], str]:
        """The ledgers that the managed ledger references now, and why that may not be all of them."""
        try:
            references = await read_references_of(self._store, managed_ledger)
        except InvalidName:  # no managed ledger can have this name
            return set(), ""
        named = references.ledgers
        if references.unreadable:
            return named, references.unreadable[0].reason
        if with_states:
            in_states, doubt = await self._named_in_states(managed_ledger)
            return named | in_states, doubt
        return named, ""

    async def _named_in_states(self, managed_ledger: str) -> tuple[set[int], str]:
        """The cursor ledgers that hold parts of the cursors' states: a checkpoint names older cursor ledgers."""
        path = managed_ledger_path(managed_ledger)
        try:
            names = await self._store.children(path)
        except NodeNotFound:
            return set(), ""
        opened: set[int] = set()

        async def open_peeked(ledger_id: int) -> StateLedger:
            opened.add(ledger_id)
            return (await self._bookkeeper.peek(ledger_id, None)).decided().reader

        for cursor, node in zip(names, await self._store.get_many([f"{path}/{name}" for name in names]), strict=True):
            if node is None:
                continue
            try:
                ledger_id = decode_managed_cursor_info(node.data, cursor).value.cursors_ledger_id
            except RecordError as error:
                return opened, str(error)
            if ledger_id == NO_CURSOR_LEDGER:
                continue
            finding = await find_state(open_peeked, self._store.sync, ledger_id)
            if isinstance(finding, CursorLedgerUnavailable):
                return opened, finding.describe()
        return opened, ""

    async def _named_by_schemas(
        self, group: Sequence[LedgerOrigin], unreadable: Sequence[UnreadableRecord]
    ) -> tuple[set[int], str]:
        """All references now, for ledgers whose metadata does not name a managed ledger."""
        references: References = await read_references(self._store)
        doubts = [*references.unreadable, *unreadable]
        only_schemas = all(origin.component == SCHEMA for origin in group)
        if only_schemas:
            doubts = [each for each in doubts if not managed_ledger_of(each.path)]
        return references.ledgers, doubts[0].reason if doubts else ""


def managed_ledger_of(path: str) -> str:
    """The managed ledger whose record, or cursor's record, is at `path`; empty for another node."""
    parts = path.split("/")
    if parts[1:2] != ["managed-ledgers"]:
        return ""
    depth = managed_ledger_depth(parts[2:])
    return "" if depth is None else "/".join(parts[2 : 2 + depth])
