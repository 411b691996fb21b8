"""A documented broker restart, with real parts: the same ledgers, the same events in the same order, the same sizes.

It is the log in "A study of Pulsar's consumption progress (1)" by iMine (2021): ledger 56 holds entries 0 to 9, all
consumed. After a restart ledger 603 is created, the cursor at 56:9 moves to 603:-1 and ledger 56 of 673 bytes is
deleted. Two differences (semantics.md, R11): the move is durable here, so opening the cursor rewinds 603:0 to 603:0,
not 56:10.
"""

import mledger
from mledger.events import (
    CursorRecovered,
    EndTrim,
    Initialized,
    LastConfirmedLedgerDeletion,
    LedgerCreated,
    LoadingCursor,
    Opening,
    RecoveringFromLedger,
    RemovingLedger,
    ResetSinceConsumed,
    Rewound,
    SubscriptionOpened,
)
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import cursor_path
from mledger.metastore.records.position import Position
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.recordings.golden_loading import draw_ids
from tests.support.topics import Events, assert_nothing_orphaned

TOPIC = "persistent://tenant_c/ns1/topic_cursor"
NAME = "tenant_c/ns1/persistent/topic_cursor"
CURSOR = "consumer_002"
OLD, NEW = 56, 603
SIZE = 673
SIZES = [67] * 9 + [SIZE - 9 * 67]
DEFAULTS = mledger.ManagedLedgerConfig()


def test_the_documented_restart(bookies):
    bookies.start(2)

    async def main():
        async with await open_store(bookies.metadata_url) as store:
            await draw_ids(store, OLD)
            async with mledger.open_cluster(bookies.metadata_url, config=DEFAULTS) as cluster:
                topic = await cluster.create_topic(TOPIC)
                cursor = await topic.open_cursor(CURSOR)
                ranges = await topic.append([bytes([65 + at]) * size for at, size in enumerate(SIZES)])
                assert ranges == (mledger.AppendedRange(OLD, 0, 9),)
                await cursor.acknowledge_cumulative(Position(OLD, 9))
                cursor_ledger = cursor.cursor_ledger
                await topic.abandon()  # the broker is gone, and nothing was closed
            drawn = cursor_ledger + 1
            await draw_ids(store, NEW - drawn)

            events = Events()
            async with mledger.open_cluster(bookies.metadata_url, config=DEFAULTS) as cluster:
                topic = await cluster.open_topic(TOPIC, events=events)
                await topic.initialized()
                record = decode_managed_cursor_info((await store.get(cursor_path(NAME, CURSOR))).data).value
                assert (record.cursors_ledger_id, record.mark_delete) == (-1, Position(NEW, -1))
                await topic.open_cursor(CURSOR)
                told = [event for event in events.seen if type(event) in DOCUMENTED]
                assert told == [
                    Opening(NAME),
                    LedgerCreated(NAME, NEW),
                    LoadingCursor(NAME, CURSOR),
                    RecoveringFromLedger(NAME, CURSOR, cursor_ledger),
                    CursorRecovered(NAME, CURSOR, Position(OLD, 9), "R3", 0),
                    Initialized(NAME),
                    ResetSinceConsumed(NAME, CURSOR, Position(OLD, 9), Position(NEW, -1)),
                    LastConfirmedLedgerDeletion(NAME, OLD, Position(OLD, 9)),
                    EndTrim(NAME, 1, 0),
                    RemovingLedger(NAME, OLD, SIZE),
                    SubscriptionOpened(NAME, CURSOR),
                    Rewound(NAME, CURSOR, Position(NEW, 0), Position(NEW, 0)),
                ]
            await assert_nothing_orphaned(bookies.metadata_url, NAME)

    run(main())


DOCUMENTED = {
    Opening,
    LedgerCreated,
    LoadingCursor,
    RecoveringFromLedger,
    CursorRecovered,
    Initialized,
    ResetSinceConsumed,
    LastConfirmedLedgerDeletion,
    EndTrim,
    RemovingLedger,
    SubscriptionOpened,
    Rewound,
}
