"""Fences whoever writes to a ledger that a command takes away: what an owner acknowledged there would be lost."""

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.cli.shared.read_only import report_waiting
from mledger.metastore.store import MetadataStore
from mledger.topics.deletion import fence_writer


async def fence_ledger(store: MetadataStore, managed_ledger: str, ledger_id: int) -> None:
    """Have the bookies refuse the topic's owner in its ledger, as `fence_writer`; progress says whom it waits for."""
    bookkeeper = BookKeeper(store, ClientConfig())
    bookkeeper.on_waiting = report_waiting()
    try:
        await fence_writer(bookkeeper, managed_ledger, ledger_id)
    finally:
        await bookkeeper.close()
