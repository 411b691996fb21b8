"""One topic and its cursors, written by us or by Pulsar's managed ledger, and its state as either of them sees it.

Run as a module it is an owner of the topic that stays until it is killed.
"""

import asyncio
import sys
from dataclasses import dataclass

import mledger
from mledger.metastore.records.paths import decode_name, encode_name
from tests.support.java.driver import Original

PAYLOADS = [b"entry %d " % number * (1 + number % 5) for number in range(100)]
MAX_ENTRIES = 40
CUMULATIVE = 29
HOLES = (0, 1, 2, 3, 10, 12, 14, 45, 46, 99)
CONSUMED = 39
CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    max_entries_per_ledger=MAX_ENTRIES,
    minimum_rollover_time_ms=0,
    retention_time_ms=-1,
    retention_size_in_mb=-1,
    throttle_mark_delete=0,
)


def managed_ledger_name(topic: str) -> str:
    """What Java calls `persistent://interop/test/<topic>`."""
    return f"interop/test/persistent/{topic}"


def full_name(topic: str) -> str:
    """Pulsar's name of it."""
    return f"persistent://interop/test/{topic}"


@dataclass(frozen=True)
class CursorView:
    """A cursor as both report it; `holes` as Pulsar prints them."""

    name: str
    mark_delete: tuple[int, int]
    backlog: int
    holes: str
    properties: dict[str, int]
    cursor_properties: dict[str, str]


@dataclass(frozen=True)
class ReportedTopic:
    """A topic as both report it; `ledgers` those with entries: id, entries, payload bytes."""

    ledgers: list[tuple[int, int, int]]
    entries: int
    size: int
    terminated: bool
    cursors: list[CursorView]


async def write_ours(ledger: mledger.ManagedLedger) -> None:
    """Append the payloads and move the cursors. Durable on return."""
    ranges = await ledger.append(PAYLOADS)
    positions = [position for where in ranges for position in where.positions()]
    await ledger.open_cursor("untouched")
    cumulative = await ledger.open_cursor("cumulative")
    await cumulative.acknowledge_cumulative(positions[CUMULATIVE], {"number": 7})
    holes = await ledger.open_cursor("holes", cursor_properties={"colour": "grün"})
    await holes.acknowledge([positions[number] for number in HOLES])
    consumed = await ledger.open_cursor("consumed")
    await consumed.acknowledge_cumulative(positions[CONSUMED])
    await ledger.open_cursor("at/the end", initial="latest")


def write_java(java: Original, topic: str, **options) -> None:
    """The same by Java; a broker encodes cursor names before it gives them to the managed ledger."""
    name = managed_ledger_name(topic)
    java.call("topic.open", topic=name, max_entries=MAX_ENTRIES, **options)
    positions = java.call("topic.append", topic=name, entries=[payload.hex() for payload in PAYLOADS])["positions"]
    java.call("topic.cursor", topic=name, cursor="untouched")
    java.call("topic.cursor", topic=name, cursor="cumulative")
    java.call(
        "topic.mark_delete", topic=name, cursor="cumulative", position=positions[CUMULATIVE], properties={"number": 7}
    )
    java.call("topic.cursor", topic=name, cursor="holes", cursor_properties={"colour": "grün"})
    java.call("topic.ack", topic=name, cursor="holes", positions=[positions[number] for number in HOLES])
    java.call("topic.cursor", topic=name, cursor="consumed")
    java.call("topic.mark_delete", topic=name, cursor="consumed", position=positions[CONSUMED])
    java.call("topic.cursor", topic=name, cursor=encode_name("at/the end"), initial="latest")
    java.call("topic.settle", topic=name)


async def view_ours(ledger: mledger.ManagedLedger) -> ReportedTopic:
    """The topic as we see it, every cursor recovered."""
    await ledger.initialized()
    cursors = [await ledger.open_cursor(name, create=False) for name in ledger.cursors]
    return ReportedTopic(
        [(info.ledger_id, info.entries, info.size) for info in ledger.ledgers if info.entries],
        ledger.number_of_entries,
        ledger.total_size,
        ledger.terminated is not None,
        [
            CursorView(
                cursor.name,
                tuple(cursor.mark_delete),
                cursor.backlog,
                cursor.individually_deleted,
                cursor.properties,
                cursor.cursor_properties,
            )
            for cursor in cursors
        ],
    )


def view_java(java: Original, topic: str) -> ReportedTopic:
    """The topic as Java sees it, its cursors moved past consumed ledgers."""
    java.call("topic.settle", topic=managed_ledger_name(topic))
    state = java.call("topic.state", topic=managed_ledger_name(topic))
    return ReportedTopic(
        [tuple(ledger) for ledger in state["ledgers"] if ledger[1]],
        state["entries"],
        state["size"],
        state["terminated"],
        sorted(
            (
                CursorView(
                    decode_name(cursor["name"]),
                    tuple(cursor["mark_delete"]),
                    cursor["backlog"],
                    cursor["holes"],
                    cursor["properties"],
                    cursor["cursor_properties"],
                )
                for cursor in state["cursors"]
            ),
            key=lambda cursor: cursor.name,
        ),
    )


async def _own(url: str, topic: str) -> None:
    async with mledger.open_cluster(url) as cluster:
        ledger = await cluster.create_topic(full_name(topic), config=CONFIG)
        await write_ours(ledger)
        print("written", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_own(*sys.argv[1:]))
