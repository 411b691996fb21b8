"""The cluster of `docs/how-to/operators-guide.md`: a topic with three subscriptions whose owner was killed.

`python -m tests.support.commands.guided_cluster` creates it in the cluster of MLEDGER_METADATA. Ledgers 0 to 3 are the
topic's; 4 and 5 hold the states of two cursors.
"""

import asyncio
import os
import signal

import mledger

TOPIC = "persistent://shop/eu/orders"
CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3, write_quorum_size=3, ack_quorum_size=3, max_entries_per_ledger=500, minimum_rollover_time_ms=0
)


async def main() -> None:
    """Write orders, acknowledge some, and die."""
    async with mledger.open_cluster(os.environ["MLEDGER_METADATA"], config=CONFIG) as cluster:
        topic = await cluster.open_topic(TOPIC, create=True)
        billing, shipping, _ = [await topic.open_cursor(name) for name in ("billing", "shipping", "audit")]
        positions: list[mledger.Position] = []
        for first in range(0, 1800, 100):
            batch = [b"order %d" % number for number in range(first, first + 100)]
            positions += [position for part in await topic.append(batch) for position in part.positions()]
        await billing.acknowledge_cumulative(positions[1599])
        await shipping.acknowledge(positions[:700] + positions[900:1700:2])
        os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main())
