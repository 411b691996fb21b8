"""Where recovery writes the tail of a ledger back when a bookie of it is gone: on its groups of bookies (Q1, Q4)."""

import contextlib
import json
import random

from mledger.bookie.client import BookKeeper
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.metastore.cluster.bookies import register, unregister
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.racks import RACKS_PATH
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup, placement_metadata
from mledger.metastore.records.ledger_metadata import LedgerState
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.ledgers import QUICK

GROUPS = {"gold": ("gold-1", "gold-2", "gold-3"), "iron": ("iron-1", "iron-2", "iron-3")}
STORAGE = BookieConfig(journal_file_bytes=1 << 20, sync=False)
LEDGERS = 4


def test_recovery_replaces_bookies_by_others_of_the_ledger_s_groups(tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            store = await stack.enter_async_context(MemoryStore())
            await initialize(store)
            groups = {group: {bookie: {"rack": "/r"} for bookie in bookies} for group, bookies in GROUPS.items()}
            await store.create(RACKS_PATH, json.dumps(groups).encode())
            ending = await stack.enter_async_context(contextlib.AsyncExitStack())
            for bookie in (*GROUPS["iron"], *GROUPS["gold"]):
                owner = ending if bookie == "gold-1" else stack
                local = await owner.enter_async_context(serving(tmp_path / bookie, config=STORAGE))
                if bookie != "gold-3":
                    await register(store, bookie, *local.address)
            gold = (placement_metadata(BookieAffinityGroup("gold")),)
            writers = []
            for seed in range(LEDGERS):
                writing = BookKeeper(store, QUICK, rng=random.Random(seed))
                stack.push_async_callback(writing.close)
                writers.append(await writing.create_ledger(2, 2, 2, custom_metadata=gold))
                assert set(writers[-1].metadata.ensemble) == {"gold-1", "gold-2"}
                await writers[-1].append([b"acknowledged"])
            await register(store, "gold-3", *local.address)
            await ending.aclose()
            await unregister(store, "gold-1")
            return [await recovered(store, seed, writer) for seed, writer in enumerate(writers)]

    assert run(main()) == [(LedgerState.CLOSED, {"gold-2", "gold-3"}, [b"acknowledged"])] * LEDGERS


async def recovered(store, seed, writer):
    """State and bookies of a ledger that another client has recovered, and its entries."""
    bookkeeper = BookKeeper(store, QUICK, rng=random.Random(seed))
    try:
        reader = await bookkeeper.open_ledger(writer.ledger_id)
        (segment,) = reader.metadata.segments
        return reader.metadata.state, set(segment.bookies), await reader.read(0, reader.last_entry)
    finally:
        await bookkeeper.close()
