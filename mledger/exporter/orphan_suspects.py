"""Ledgers of managed ledgers that no record names: suspected orphans, as far as metadata shows, after a second look.

Ledgers are listed before any reference is read. What nothing names is then checked again: whether its own topic, the
records of R10 and the ledger itself say the same. Cursor ledgers may hold further references, and only bookies have
those; `mledger ledgers check` reads them and decides.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from mledger.admin.references.reader import UnreadableRecord, read_origins, read_topic_references
from mledger.ledgers.orphans.pending_records import read_kept, read_records
from mledger.ledgers.orphans.references import MANAGED_LEDGER, LedgerOrigin, find_orphans
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import InvalidName, MetadataAccessDenied
from mledger.metastore.store import MetadataReader

YOUNG_MS = 3_600_000
"""A ledger younger than this may be one that its owner has not listed yet."""
LOOKS = 1_000
"""The most managed ledgers that a round looks at again."""
PAGE = 500


@dataclass(frozen=True, slots=True)
class OrphanSuspects:
    """Ledgers that nothing seemed to name at the second look either; `unchecked` are those not looked at again."""

    data_ledgers: int = 0
    cursor_ledgers: int = 0
    unchecked: int = 0


class LedgerReferences:
    """One round's listed ledgers and the ledgers that records name, as compressed sets of ids."""

    def __init__(self, reader: MetadataReader, of_others: BitMap64) -> None:
        """`of_others`: ledgers that are not judged, known from rounds before; new ones are added."""
        self._reader = reader
        self._of_others = of_others
        self.listed = BitMap64()
        self.named = BitMap64()

    async def list_ledgers(self) -> None:
        """List all ledgers; call it before anything is named. StoreUnavailable, NodeNotFound, RecordError."""
        async for page in LedgerStoreReader(self._reader).list():
            self.listed.update(page)
        self._of_others &= self.listed

    def name(self, ledger_ids: Iterable[int]) -> None:
        """Records name these ledgers."""
        self.named.update(ledger_id for ledger_id in ledger_ids if ledger_id >= 0)

    async def name_pending(self) -> None:
        """Name the ledgers that are being created or deleted; before and after the topics are read."""
        self.name(record.ledger_id for record in await read_records(self._reader))

    async def name_kept(self) -> None:
        """Name the cursor ledgers that are kept; last."""
        self.name(record.ledger_id for record in await read_kept(self._reader))

    async def suspects(self, now_ms: int) -> OrphanSuspects:
        """Look again at what nothing names: at the topics, then once at the records of all (R10), then at the ledgers.

        In this order: a ledger that is deleted meanwhile is recorded before its topic unlists it, until it is gone.
        """
        unnamed = self.listed - self.named - self._of_others
        groups: dict[str, list[LedgerOrigin]] = defaultdict(list)
        ledger_ids = list(unnamed[: LOOKS * 10])
        unchecked = len(unnamed) - len(ledger_ids)
        for start in range(0, len(ledger_ids), PAGE):
            for origin in await self._judged(ledger_ids[start : start + PAGE], now_ms):
                if origin.managed_ledger in groups or len(groups) < LOOKS:
                    groups[origin.managed_ledger].append(origin)
                else:
                    unchecked += 1
        found: list[LedgerOrigin] = []
        for managed_ledger, origins in groups.items():
            found += await self._unlisted_still(managed_ledger, origins)
        if found:
            await self.name_pending()
            await self.name_kept()
        left = [origin.ledger_id for origin in found if origin.ledger_id not in self.named]
        there: list[LedgerOrigin] = []
        for start in range(0, len(left), PAGE):
            there += [each.origin for each in await read_origins(self._reader, left[start : start + PAGE], [])]
        of_cursors = sum(bool(origin.cursor) for origin in there)
        return OrphanSuspects(len(there) - of_cursors, of_cursors, unchecked)

    async def _judged(self, ledger_ids: Sequence[int], now_ms: int) -> Sequence[LedgerOrigin]:
        """Those of the ledgers that are old enough to count, and to which all references are known but in states."""
        unreadable: list[UnreadableRecord] = []
        origins = [each.origin for each in await read_origins(self._reader, ledger_ids, unreadable)]
        ours = [each for each in origins if each.component == MANAGED_LEDGER and each.managed_ledger]
        self._of_others |= BitMap64(each.ledger_id for each in origins) - BitMap64(each.ledger_id for each in ours)
        return find_orphans(ours, (), now_ms=now_ms, min_age_ms=YOUNG_MS).candidates

    async def _unlisted_still(self, managed_ledger: str, origins: Sequence[LedgerOrigin]) -> Sequence[LedgerOrigin]:
        """Those that the topic does not list now; none if a record of the topic does not parse, or may not be read."""
        try:
            references = await read_topic_references(self._reader, managed_ledger)
        except InvalidName:  # no managed ledger can have this name
            return origins
        except MetadataAccessDenied:
            return ()
        if references.unreadable:
            return ()
        named = references.ledgers
        return [origin for origin in origins if origin.ledger_id not in named]
