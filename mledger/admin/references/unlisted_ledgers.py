"""Data ledgers with entries that a topic's list has lost, or whose topic does not exist; read-only.

An entry is written only to a listed ledger, and trimming takes the first ones of the list. So a data ledger that
nothing names, with entries and above the first that is listed, was dropped by hand, or the topic's record is an older
one. A topic's record goes when all its ledgers are deleted or recorded for deletion. So where one with entries is left,
the topic's record is lost, or was removed by hand. Its clients may have created the topic anew since, with a list that
begins above the ledger: it is older than the record then. A command that takes ledgers from a list, and a restore,
records them as kept: later their topic's list may begin above them, as if they had been trimmed.
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from mledger.admin.references.ledger_facts import LedgerFacts, LedgerFactsReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.ledgers.orphans.references import MANAGED_LEDGER, LedgerOrigin
from mledger.metastore.errors import InvalidName, MledgerError, RecordError
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import ledger_path, managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.store import MetadataReader, Node

LOST_FROM_LIST = "it has entries, or may have some, and its topic's list has lost it"
TOPIC_IS_GONE = "it has entries, or may have some, and its topic does not exist"
"""Why a ledger that nothing names is no orphan."""
_AT_ONCE = 16


class FilledLedger(Struct, frozen=True):
    """A data ledger that has entries, or may have some; `facts` is None if they cannot be read now.

    `created_ms` is when its metadata was created, in ms since 1970 by the store's clock.
    """

    facts: LedgerFacts | None
    created_ms: int


def unlisted_ledgers(info: ManagedLedgerInfo, written: Collection[int], kept: Collection[int]) -> frozenset[int]:
    """The ledgers of those `written` that the list once had, and that were not trimmed from its beginning.

    What is `kept` was not trimmed, wherever the list begins now.
    """
    first = info.ledgers[0].ledger_id if info.ledgers else -1
    return frozenset(each for each in written if each > first or each in kept)


def ledgers_before(written: Mapping[int, FilledLedger], topic_ms: int) -> frozenset[int]:
    """Those older than the topic's record, which was created at `topic_ms`: an earlier topic of the name had them."""
    return frozenset(ledger_id for ledger_id, each in written.items() if each.created_ms < topic_ms)


class UnlistedReader:
    """Finds the unlisted ledgers among those that nothing names."""

    def __init__(self, store: MetadataReader, bookkeeper: BookKeeperReader) -> None:
        self._store = store
        self._facts = LedgerFactsReader(bookkeeper, asyncio.Semaphore(_AT_ONCE))

    async def unlisted(self, unnamed: Iterable[LedgerOrigin], kept: Collection[int] = ()) -> dict[int, str]:
        """Those of the ledgers `unnamed` that their topics' lists have lost, or whose topics are gone; and which.

        `kept` are those that are recorded as such.
        """
        of_topics: dict[str, list[LedgerOrigin]] = {}
        for origin in filter(is_data, unnamed):
            with contextlib.suppress(InvalidName):
                of_topics.setdefault(managed_ledger_path(origin.managed_ledger), []).append(origin)
        found: dict[int, str] = {}
        for (path, group), node in zip(of_topics.items(), await self._store.get_many(list(of_topics)), strict=True):
            if node is None:
                found |= dict.fromkeys(await self.written(group), TOPIC_IS_GONE)
                continue
            with contextlib.suppress(RecordError):
                info = decode_managed_ledger_info(node.data, path).value
                written = await self.written(group)
                known = {*kept, *ledgers_before(written, node.stat.created_ms)}
                found |= dict.fromkeys(unlisted_ledgers(info, written, known), LOST_FROM_LIST)
        return found

    async def written(self, unnamed: Iterable[LedgerOrigin]) -> dict[int, FilledLedger]:
        """Those of the ledgers `unnamed` that are data ledgers with entries, or that may have some."""
        ids = [each.ledger_id for each in filter(is_data, unnamed)]
        nodes = await self._store.get_many([ledger_path(ledger_id) for ledger_id in ids])
        found = await asyncio.gather(*map(self._written, ids, nodes))
        return {ledger_id: each for ledger_id, each in zip(ids, found, strict=True) if each is not None}

    async def _written(self, ledger_id: int, node: Node | None) -> FilledLedger | None:
        """The ledger, unless it has no entries for certain."""
        created_ms = 0 if node is None else node.stat.created_ms
        try:
            facts = await self._facts.read(ledger_id, node)
        except MledgerError:
            return FilledLedger(None, created_ms)
        return FilledLedger(facts, created_ms) if facts is not None and facts.end.entries > 0 else None


def is_data(origin: LedgerOrigin) -> bool:
    """Whether the ledger is one of a topic's list."""
    return origin.component == MANAGED_LEDGER and not origin.cursor
