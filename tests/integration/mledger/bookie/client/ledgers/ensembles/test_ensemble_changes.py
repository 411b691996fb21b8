"""A change of the ensemble that is stopped, with a bookie that could take the place."""

import asyncio
import random

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.ensembles.ensemble_changes import EnsembleChanges
from mledger.bookie.client.ledgers.pending_batches import PendingBatches
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.metastore.cluster.bookies import register
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving


def test_who_waits_for_a_change_that_is_stopped_is_not_cancelled(tmp_path):
    async def main():
        committing = asyncio.Event()

        async def commit(*_):
            committing.set()
            await asyncio.get_running_loop().create_future()

        async with await open_store("memory:") as store, serving(tmp_path) as local:
            await initialize(store)
            await register(store, "other:1", *local.address)
            config = ClientConfig()
            pool = BookiePool(store, config)
            changes = EnsembleChanges(
                7,
                ("gone:1",),
                WriteQuorum(1, 1, 1),
                commit,
                PendingBatches(),
                pool,
                config,
                lane=Lane.RECOVERY,
                rng=random.Random(1),
                on_change=lambda *_: frozenset(),
                on_failure=lambda _: None,
            )
            changes.note_failed({0: "lost"})
            changes.start()
            await committing.wait()
            waiting = asyncio.create_task(changes.settled())
            await asyncio.sleep(0)
            changes.stop()
            await asyncio.wait([waiting])
            await pool.close()
            assert not waiting.cancelled()

    run(main())
