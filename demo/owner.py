"""The process that owns the topic: publishes every row, acknowledges for each subscription, and is killed.

Run as `python -m demo.owner URL`; tells on stdout, a JSON object a line, what it has done. Once everything is published
and acknowledged it waits for a line on stdin, then acknowledges on without waiting until it is killed.
"""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterator

import mledger
from demo import flights
from demo.rowmap import RowMap
from demo.subscriptions import CONFIG, SUBSCRIPTIONS, TOPIC, Subscription

BATCH = 500
WINDOW_BATCHES = 16
ACKNOWLEDGE_EVERY = 10_000
PACE_S = 0.002


def main() -> None:
    """Entry point."""
    asyncio.run(own(sys.argv[1]))


async def own(url: str) -> None:
    """Publish and acknowledge, then go on acknowledging until killed."""
    async with mledger.open_cluster(url, config=CONFIG) as cluster:
        topic = await cluster.create_topic(TOPIC)
        for subscription in SUBSCRIPTIONS:
            await topic.open_cursor(subscription.name, initial="earliest")
        rows = await publish(topic)
        await asyncio.gather(*(acknowledge(topic, each, rows) for each in SUBSCRIPTIONS))
        say(published=rows.rows, ranges=rows.ranges)
        await asyncio.to_thread(sys.stdin.readline)
        for subscription in SUBSCRIPTIONS:
            if subscription.in_flight is not None:
                await go_on(await topic.open_cursor(subscription.name), subscription.in_flight, rows)
        await asyncio.Event().wait()


async def publish(topic: mledger.ManagedLedger) -> RowMap:
    """Publish every row, subscriptions acknowledging behind; returns when all rows are acknowledged to us."""
    rows = RowMap()
    waiting: deque[asyncio.Future[tuple[mledger.AppendedRange, ...]]] = deque()
    told = 0
    for batch in batches():
        waiting.append(topic.append(batch))
        while len(waiting) > WINDOW_BATCHES:
            for appended in await waiting.popleft():
                rows.add(appended)
        if rows.rows - told >= ACKNOWLEDGE_EVERY:
            told = rows.rows
            say(rows=told)
            for subscription in SUBSCRIPTIONS:
                follow(topic.open_cursors[subscription.name], subscription, rows)
    for future in waiting:
        for appended in await future:
            rows.add(appended)
    return rows


def follow(cursor: mledger.Cursor, subscription: Subscription, rows: RowMap) -> None:
    """Let a subscription acknowledge what is published by now, up to its snapshot; nobody waits for it."""
    row = min(rows.rows, subscription.snapshot or subscription.cumulative) - 1
    if cursor.mark_delete < rows.position(row):
        keep(cursor.acknowledge_cumulative(rows.position(row)))


async def acknowledge(topic: mledger.ManagedLedger, subscription: Subscription, rows: RowMap) -> None:
    """Everything the subscription acknowledges durably; returns when it is."""
    cursor = await topic.open_cursor(subscription.name)
    if subscription.snapshot:
        await cursor.acknowledge_cumulative(rows.position(subscription.snapshot - 1))
        await cursor.close()
        cursor = await topic.open_cursor(subscription.name)
    await cursor.acknowledge_cumulative(rows.position(subscription.cumulative - 1))
    if individual := [rows.position(row) for row in subscription.individual_rows()]:
        await cursor.acknowledge(individual)
    if subscription.closed:
        await cursor.close()


async def go_on(cursor: mledger.Cursor, first: int, rows: RowMap) -> None:
    """Acknowledge row after row from `first` on, without waiting for any to be durable."""
    for row in range(first, rows.rows):
        keep(cursor.acknowledge([rows.position(row)]))
        if row % 100 == 0:
            say(in_flight=row - first)
            await asyncio.sleep(PACE_S)


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


_kept: set["asyncio.Future[None]"] = set()


def keep(future: "asyncio.Future[None]") -> None:
    """Hold on to an acknowledgement that nobody waits for; a failed one ends the process."""
    _kept.add(future)
    future.add_done_callback(_kept.discard)


def say(**facts: object) -> None:
    """Tell the demo."""
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
