"""Fences whoever writes to a ledger that a command takes away: what an owner acknowledged there would be lost."""

import contextlib

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.cli.shared.read_only import report_waiting
from mledger.ledgers.topic_record import fence_owner
from mledger.metastore.errors import InvalidName, NodeNotFound
from mledger.metastore.records.paths import managed_ledger_path
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


async def outdate_records(store: MetadataStore, managed_ledger: str, cursor: str) -> None:
    """Write the topic's record unchanged, and that of the cursor whose node is called `cursor`, if there are any.

    An owner of Pulsar's that was frozen for longer than its session may have created a ledger that it is yet to name
    there. Raises BadVersion if one is changed at the same time.
    """
    topic = managed_ledger_path(managed_ledger)
    for path in (topic, f"{topic}/{cursor}") if cursor else (topic,):
        with contextlib.suppress(NodeNotFound, InvalidName):  # what a ledger's metadata says may be no node's name
            await fence_owner(store, path, (await store.get(path)).version)
