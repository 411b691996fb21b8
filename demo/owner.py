"""The process that owns the topic: publishes every row, acknowledges for each subscription, and is killed.

Run as `python -m demo.owner URL`. It reports its progress on stdout, one JSON object per line. Once everything is
published and acknowledged, it waits for a line on stdin, then continues to acknowledge, without waiting for the
results, until it is killed.
"""

import asyncio
import itertools
import json
import sys
from collections import deque
from collections.abc import Iterator

import mledger
from demo import flights
from demo.rowmap import RowMap
from demo.subscriptions import CLEAN_RESTART_AT, CONFIG, SUBSCRIPTIONS, TOPIC, DemoSubscription

BATCH = 500
WINDOW_BATCHES = 16
PACE_S = 0.002


def main() -> None:
    """Entry point."""
    asyncio.run(own(sys.argv[1]))


async def own(url: str) -> None:
    """Publish and acknowledge, with one clean restart in between, then continue to acknowledge until killed."""
    rows = RowMap()
    payloads = batches()
    async with mledger.open_cluster(url, config=CONFIG) as cluster:
        topic = await cluster.create_topic(TOPIC)
        for subscription in SUBSCRIPTIONS:
            await topic.open_cursor(subscription.name, initial="earliest")
        await publish(topic, itertools.islice(payloads, CLEAN_RESTART_AT // BATCH), rows)
        for subscription in SUBSCRIPTIONS:
            await up_to(topic, subscription, rows)
        await topic.close()

        topic = await cluster.open_topic(TOPIC)
        await topic.initialized()
        await publish(topic, payloads, rows)
        await asyncio.gather(*(acknowledge(topic, each, rows) for each in SUBSCRIPTIONS))
        say(published=rows.rows, ranges=rows.ranges)
        await asyncio.to_thread(sys.stdin.readline)
        for subscription in SUBSCRIPTIONS:
            if subscription.in_flight is not None:
                await acknowledge_on(topic.open_cursors[subscription.name], subscription.in_flight, rows)
        await asyncio.Event().wait()


async def publish(topic: mledger.ManagedLedger, payloads: Iterator[list[bytes]], rows: RowMap) -> None:
    """Publish while the subscriptions acknowledge; returns when all entries and acknowledgements are durable."""
    waiting: deque[asyncio.Future[tuple[mledger.AppendedRange, ...]]] = deque()
    behind: asyncio.Future[list[None]] | None = None
    for batch in payloads:
        waiting.append(topic.append(batch))
        while len(waiting) > WINDOW_BATCHES:
            rows.extend(await waiting.popleft())
        if behind is None or behind.done():
            if behind is not None:
                behind.result()
                say(rows=rows.rows)
            behind = asyncio.gather(*(up_to(topic, each, rows) for each in SUBSCRIPTIONS if rows.rows))
    while waiting:
        rows.extend(await waiting.popleft())
    if behind is not None:
        await behind
    say(rows=rows.rows)


async def up_to(topic: mledger.ManagedLedger, subscription: DemoSubscription, rows: RowMap) -> None:
    """Acknowledge durably the published rows that the subscription acknowledges cumulatively."""
    cursor = topic.open_cursors[subscription.name]
    last = rows.position(min(rows.rows, subscription.cumulative) - 1)
    if cursor.mark_delete < last:  # the cursor may have moved to the next ledger by itself
        await cursor.acknowledge_cumulative(last)
    else:
        await cursor.flush()


async def acknowledge(topic: mledger.ManagedLedger, subscription: DemoSubscription, rows: RowMap) -> None:
    """Acknowledge durably everything that the subscription acknowledges."""
    await up_to(topic, subscription, rows)
    cursor = topic.open_cursors[subscription.name]
    if individual := [rows.position(row) for row in subscription.individual_rows()]:
        await cursor.acknowledge(individual)
    if subscription.closed:
        await cursor.close()


async def acknowledge_on(cursor: mledger.Cursor, first: int, rows: RowMap) -> None:
    """Acknowledge row after row from `first` on, without waiting for any to be durable."""
    sent = []
    for row in range(first, rows.rows):
        sent.append(cursor.acknowledge([rows.position(row)]))
        if row % 100 == 0:
            say(in_flight=row - first)
            await asyncio.sleep(PACE_S)
    await asyncio.gather(*sent)


def batches() -> Iterator[list[bytes]]:
    """The rows as payloads, in batches."""
    batch: list[bytes] = []
    for row in flights.rows():
        batch.append(flights.encode(row))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def say(**facts: object) -> None:
    """Report to the demo."""
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
