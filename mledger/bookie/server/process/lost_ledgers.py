"""The ledgers of which a bookie with new directories may have lost entries and fences: it notes them before it serves.

A bookie that lost its disk would answer "no such entry" for entries that it acknowledged, and take adds from owners
that it was told to fence. Recovery takes the first for proof (Q4), and relies on the second not to happen (Q7). So the
bookie's index gets a record of every ledger whose metadata names the bookie:

- Fenced, unless the ledger is open: fencing begins after the state has changed, so an open ledger had no fence here.
- In limbo, unless the ledger is closed: the bookie does not know whether it had an entry that it lacks now. Nobody
  recovers a closed ledger.
- Lacking, in any case: a ledger that is closed is open again where an older backup of the metadata is put back.

Such a backup may name the bookie in other ledgers, too, which have been moved to others since. So none that there is
already proves by its absence that it never was here.

Only metadata is read. Ledgers that begin to name the bookie meanwhile have lost nothing here: it does not serve yet.
"""

from array import array
from collections.abc import Iterator, Sequence

from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from mledger.metastore.cluster.layout import check_layout
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import LEDGERS, ledger_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

_AT_ONCE = 1_000
"""Records of ledgers read at once."""

UNREADABLE = LedgerData.without_key(fenced=True, limbo=True)
"""What is noted of a ledger whose metadata has the bookie's name in it and cannot be read."""


class LostLedgers:
    """What a bookie notes of the ledgers it may have held; takes nine bytes a ledger."""

    def __init__(self) -> None:
        self._ids = array("Q")
        self._flags = bytearray()
        self.known_from = 0
        """The first id above all ledgers that there are: the bookie has what it gets of any from here on."""

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[tuple[int, LedgerData]]:
        """Ledger ids in the order of listing, each with the record to note."""
        for ledger, flags in zip(self._ids, self._flags, strict=True):
            yield ledger, LedgerData.without_key(fenced=bool(flags & 1), limbo=bool(flags & 2))

    def add(self, ledger: int, record: LedgerData) -> None:
        """Add a ledger with the record to note."""
        self._ids.append(ledger)
        self._flags.append(record.fenced | record.limbo << 1)


def plan_lost(metadata: LedgerMetadata, bookie_id: str) -> LedgerData | None:
    """What the bookie notes of a ledger whose copies it may have lost; None if no ensemble names it."""
    if not any(bookie_id in segment.bookies for segment in metadata.segments):
        return None
    return LedgerData.without_key(
        fenced=metadata.state is not LedgerState.OPEN, limbo=metadata.state is not LedgerState.CLOSED
    )


async def find_lost(reader: MetadataReader, bookie_id: str, root: str = LEDGERS) -> LostLedgers:
    """Look for the ledgers whose metadata names the bookie, in a metadata store that is synced first (Q9).

    Raises StoreUnavailable, and RecordError where the ledgers cannot be listed: without the list nothing may be served.
    """
    await check_layout(reader, root)
    await reader.sync()
    lost = LostLedgers()
    async for page in LedgerStoreReader(reader, root).list():
        lost.known_from = max(lost.known_from, page[-1] + 1)
        for start in range(0, len(page), _AT_ONCE):
            await _find_among(reader, page[start : start + _AT_ONCE], bookie_id, root, lost)
    if lost:
        log.warning("ledgers_lost", bookie=bookie_id, ledgers=len(lost), hint="have their entries re-replicated")
    return lost


async def _find_among(
    reader: MetadataReader, ledgers: Sequence[int], bookie_id: str, root: str, lost: LostLedgers
) -> None:
    paths, name = [ledger_path(ledger, root) for ledger in ledgers], bookie_id.encode()
    for ledger, path, node in zip(ledgers, paths, await reader.get_many(paths), strict=True):
        if node is None or name not in node.data:  # every version of the record has the ids of bookies as plain text
            continue
        try:
            record = plan_lost(decode_ledger_metadata(node.data, path), bookie_id)
        except RecordError as error:
            log.warning("ledger_metadata_unreadable", ledger=ledger, error=error, hint="it is fenced and in limbo")
            record = UNREADABLE
        if record is not None:
            lost.add(ledger, record)
