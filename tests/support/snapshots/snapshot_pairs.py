"""Two small snapshots, an hour apart, whose every number can be checked by hand.

`orders` has ledgers 1 (10 entries, 1000 B), 2 (20 entries, 4000 B), 3 (5 entries, 500 B) and the open ledger 4.
Its cursors: `slow` at 1:3 with 1:5..1:6 and 2:0..2:9 acknowledged, `quick` at 3:1, `done` at 3:4.
"""

from datetime import UTC, datetime, timedelta

from tests.support.snapshots.exports import write_snapshot

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TOPIC = "persistent://t/n/orders"
IDLE = "persistent://t/n/idle"


def topic(name, first, last, entries, size, *, cursors, ledgers, created):
    return {
        "tenant": "t",
        "namespace": "t/n",
        "topic": name,
        "managed_ledger": name.removeprefix("persistent://"),
        "first_ledger_id": first,
        "last_ledger_id": last,
        "entries": entries,
        "size": size,
        "cursors": cursors,
        "ledgers": ledgers,
        "created": created,
    }


def listed(name, ledger_id, entries, size, closed=None, **more):
    managed_ledger = name.removeprefix("persistent://")
    return {
        "topic": name,
        "managed_ledger": managed_ledger,
        "ledger_id": ledger_id,
        "entries": entries,
        "size": size,
        "closed": closed,
    } | more


def cursor(name, subscription, ledger_id, entry_id, *, state="znode", **more):
    return {
        "topic": name,
        "managed_ledger": name.removeprefix("persistent://"),
        "cursor": subscription,
        "state": state,
        "cursor_ledger_id": -1,
        "mark_delete_ledger_id": ledger_id,
        "mark_delete_entry_id": entry_id,
        "snapshot_ledger_id": ledger_id,
        "snapshot_entry_id": entry_id,
        "holes": 0,
        "partial_batches": 0,
    } | more


def hole(subscription, lower, upper, ack_set=None):
    return {
        "topic": TOPIC,
        "managed_ledger": "t/n/orders",
        "cursor": subscription,
        "lower_ledger_id": lower[0],
        "lower_entry_id": lower[1],
        "upper_ledger_id": upper[0],
        "upper_entry_id": upper[1],
        "ack_set": ack_set,
    }


def ledger(ledger_id, hours, last_entry, length, *, quorum=2, custom=(), **more):
    return {
        "ledger_id": ledger_id,
        "tenant": "t",
        "namespace": "t/n",
        "managed_ledger": "t/n/orders",
        "topic": TOPIC,
        "state": "OPEN" if last_entry is None else "CLOSED",
        "write_quorum": quorum,
        "last_entry": last_entry,
        "length": length,
        "created": NOW - hours * HOUR,
        "ctime": NOW - hours * HOUR,
        "custom_metadata": list(custom),
    } | more


def member(ledger_id, bookie_id, entries, **more):
    return {"ledger_id": ledger_id, "bookie_id": bookie_id, "entries": entries, "topic": TOPIC} | more


def write_both(to):
    """The paths of the earlier and of the later snapshot."""
    before = write_snapshot(
        to,
        "before",
        NOW - HOUR,
        topics=[
            topic(TOPIC, 1, 3, 30, 5000, cursors=4, ledgers=3, created=NOW - 10 * HOUR),
            topic("persistent://t/n/old", 50, 50, 1, 1, cursors=0, ledgers=1, created=NOW - 10 * HOUR),
        ],
        topic_ledgers=[
            listed(TOPIC, 1, 10, 1000, NOW - 8 * HOUR),
            listed(TOPIC, 2, 20, 4000, NOW - 4 * HOUR),
            listed(TOPIC, 3, 0, 0),
        ],
        cursors=[
            cursor(TOPIC, "slow", 1, 3),
            cursor(TOPIC, "quick", 2, 5),
            cursor(TOPIC, "done", 3, -1, state="snapshot"),
            cursor(TOPIC, "back", 2, 19),
        ],
        ledgers=[ledger(1, 10, 9, 1000), ledger(50, 10, 0, 1)],
        bookies=[{"bookie_id": "b1", "state": "writable"}, {"bookie_id": "b2", "state": "writable"}],
    )
    now = write_snapshot(
        to,
        "now",
        NOW,
        topics=[
            topic(TOPIC, 1, 4, 35, 5500, cursors=4, ledgers=4, created=NOW - 10 * HOUR),
            topic(IDLE, 30, 30, 7, 700, cursors=0, ledgers=1, created=NOW - 3 * HOUR),
            topic("persistent://t/n/kept", 20, 22, 8, 800, cursors=1, ledgers=3, created=NOW - 5 * HOUR),
        ],
        topic_ledgers=[
            listed(TOPIC, 1, 10, 1000, NOW - 8 * HOUR),
            listed(TOPIC, 2, 20, 4000, NOW - 4 * HOUR),
            listed(TOPIC, 3, 5, 500, NOW - HOUR / 2),
            listed(TOPIC, 4, 0, 0),
            listed(IDLE, 30, 7, 700, NOW - HOUR),
            listed("persistent://t/n/kept", 20, 4, 400, NOW - 4 * HOUR),
            listed("persistent://t/n/kept", 21, 4, 400, NOW - 3 * HOUR),
            listed("persistent://t/n/kept", 22, 0, 0),
            listed(IDLE, 15, 1, 1, NOW, offload_deleted=True),
        ],
        cursors=[
            cursor(TOPIC, "slow", 1, 3, holes=2, partial_batches=1, cursor_ledger_id=16),
            cursor(TOPIC, "quick", 3, 1),
            cursor(TOPIC, "done", 3, 4, state="snapshot"),
            cursor(TOPIC, "back", 3, 4, snapshot_ledger_id=2, snapshot_entry_id=7),
            cursor("persistent://t/n/kept", "only", 21, 3),
        ],
        cursor_holes=[
            hole("slow", (1, 4), (1, 6)),
            hole("slow", (1, 9), (2, 9)),
            hole("slow", (2, 11), (2, 12), [5]),
        ],
        ledgers=[
            ledger(1, 10, 9, 1000, quorum=3),
            ledger(2, 8, 19, 4000),
            ledger(3, 4, 4, 500),
            ledger(4, 1, None, None),
            ledger(20, 5, 3, 400),
            ledger(21, 4, 3, 400),
            ledger(22, 3, None, None),
            ledger(30, 3, 6, 700),
            ledger(40, 2, 0, 9, topic=None),
            ledger(41, 0.5, 0, 9, topic=None),
            ledger(42, 9, 0, 9, custom=[("component", "schema")]),
            ledger(43, 9, 0, 9, managed_ledger=None, topic=None, tenant=None, namespace=None),
            ledger(44, 9, None, None),
        ],
        ensembles=[
            member(1, "b1", 10),
            member(1, "b2", 5),
            member(2, "b1", 20),
            member(2, "gone", 10),
            member(4, "b2", None),
            member(4, "away", None),
        ],
        bookies=[
            {"bookie_id": "b1", "state": "writable", "rack": "/r1"},
            {"bookie_id": "b2", "state": "read-only"},
            {"bookie_id": "away", "state": "away"},
        ],
        underreplicated=[{"ledger_id": 1}, {"ledger_id": 2}],
        namespaces=[{"tenant": "t", "namespace": "t/n", "retention_minutes": 210, "retention_mb": -1}],
    )
    return before, now
