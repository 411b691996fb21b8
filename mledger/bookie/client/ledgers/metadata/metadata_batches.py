"""Combines updates of ledger metadata that are requested at the same time into one request to the store.

As `metadata_reads` does with reads. Updates of several ledgers become one multi, as many as surely fit a request. If
the store refuses one of them it carries out none, and each is then sent alone.
"""

import asyncio
from collections.abc import Sequence

from mledger.bookie.client.ledgers.metadata.metadata_reads import RequestTurn
from mledger.metastore.batched_store import plan_multis
from mledger.metastore.cluster.ledgers import LedgerStore, multi_own
from mledger.metastore.errors import MetadataError, StoreUnavailable
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.store import MetadataStore, Put

Update = tuple[int, LedgerMetadata, int]  # ledger id, metadata, version expected


class MetadataUpdates:
    """Replaces ledgers' metadata, each by compare-and-set (M7)."""

    def __init__(self, store: MetadataStore, records: LedgerStore) -> None:
        self._store, self._records = store, records
        self._turn: RequestTurn[Update, int] = RequestTurn(self._put)

    async def put(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """As `LedgerStore.put`: the new version; BadVersion, NodeNotFound, StoreUnavailable."""
        return await self._turn.ask((ledger_id, metadata, version))

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """As `LedgerStore.read`: the metadata in the store; NodeNotFound."""
        return await self._records.read(ledger_id)

    async def _put(self, updates: Sequence[Update]) -> Sequence[int | Exception]:
        puts = [
            Put(ledger_path(ledger_id, self._records.root), encode_ledger_metadata(metadata), version)
            for ledger_id, metadata, version in updates
        ]
        parts = [slice(part.start, part.stop) for part in plan_multis([[put] for put in puts])]
        answers = await asyncio.gather(*(self._put_together(updates[part], puts[part]) for part in parts))
        return [answer for part in answers for answer in part]

    async def _put_together(self, updates: Sequence[Update], puts: Sequence[Put]) -> Sequence[int | Exception]:
        if len({ledger_id for ledger_id, _, _ in updates}) < len(updates) or len(updates) == 1:
            return [await self._put_alone(update) for update in updates]
        try:
            results = await multi_own(self._store, puts)
        except StoreUnavailable as error:
            return [error] * len(updates)
        except MetadataError:  # one was refused, so none was carried out
            return await asyncio.gather(*(self._put_alone(update) for update in updates))
        except Exception as error:
            return [error] * len(updates)
        return [result for result in results if isinstance(result, int)]

    async def _put_alone(self, update: Update) -> int | Exception:
        try:
            return await self._records.put(*update)
        except Exception as error:
            return error
