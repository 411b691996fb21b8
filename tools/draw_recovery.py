"""Draw docs/pictures/recovery.svg from the events of a real recovery.

A cluster of this machine is started; an owner, a process of its own, appends, acknowledges and is killed with -9; the
next owner opens the topic. What is stored before and after is looked up, and what stands between are the events of
the next owner. `draw_recovery.py [FILE]`; drawn anew it is the same, byte for byte.
"""

import asyncio
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path

import mledger
from mledger.admin.inspect import Inspector
from mledger.bookie.client import BookKeeperReader
from mledger.events import Event
from mledger.metastore.url import open_reader
from pytest_mledger.clusters.cluster import RunningCluster

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "recovery.svg"
TOPIC = "persistent://public/default/orders"
ENTRIES, PER_LEDGER = 100, 40
CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    max_entries_per_ledger=PER_LEDGER,
    minimum_rollover_time_ms=0,
    throttle_mark_delete=0,
)
UNTOUCHED, CUMULATIVE, HOLES = "archive", "billing", "shipping"
WIDTH, SCALE, LEFT, LINE = 960, 6, 110, 18
STYLE = """
text { font: 13px ui-monospace, monospace; fill: #1f2328 } .title { font-weight: bold } .soft { fill: #59636e }
.ledger { fill: none; stroke: #59636e } .open { stroke-dasharray: 4 3 } .left { fill: #d1d9e0 } .done { fill: #2da44e }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .soft { fill: #9198a1 } .ledger { stroke: #9198a1 } .left { fill: #3d444d }
  .done { fill: #3fb950 }
}
"""


@dataclass(frozen=True)
class DrawnLedger:
    """A ledger as drawn."""

    ledger_id: int
    entries: int
    is_open: bool


@dataclass(frozen=True)
class State:
    """The stored state: the ledgers, and for each cursor which entries are acknowledged, over all ledgers in order."""

    ledgers: list[DrawnLedger]
    cursors: dict[str, list[bool]]


async def own(url: str) -> None:
    """Write the topic, then wait to be killed."""
    async with mledger.open_cluster(url, config=CONFIG) as cluster:
        topic = await cluster.create_topic(TOPIC)
        cursors = [await topic.open_cursor(name) for name in (UNTOUCHED, CUMULATIVE, HOLES)]
        await cursors[0].flush()
        ranges = await topic.append([b"order %d" % number for number in range(ENTRIES)])
        positions = [position for where in ranges for position in where.positions()]
        await cursors[1].acknowledge_cumulative(positions[PER_LEDGER - 1])
        await cursors[2].acknowledge([*positions[:20], *positions[30:60:3], *positions[70:90]])
        print("written", flush=True)
        await asyncio.Event().wait()


async def look(url: str) -> State:
    """What the killed owner left, read without opening the topic."""
    async with await open_reader(url) as reader:
        bookkeeper = BookKeeperReader(reader)
        try:
            inspector = Inspector(reader, bookkeeper)
            topic = await inspector.topic(TOPIC)
            ledgers = [DrawnLedger(each.ledger_id, each.entries, not each.closed) for each in topic.ledgers]
            positions = [mledger.Position(each.ledger_id, entry) for each in ledgers for entry in range(each.entries)]
            plans = {each.name: each.plan for each in await inspector.cursors(TOPIC)}
            return State(
                ledgers,
                {name: [plan.acks.is_deleted(at) for at in positions] for name, plan in plans.items() if plan},
            )
        finally:
            await bookkeeper.close()


async def recover(url: str) -> list[Event]:
    """Open the topic as the next owner; returns its events."""
    events: list[Event] = []
    async with mledger.open_cluster(url, config=CONFIG) as cluster:
        topic = await cluster.open_topic(TOPIC, events=events.append)
        await topic.initialized()
        await topic.abandon()
    return events


def record() -> tuple[State, list[Event], State]:
    """The state before, the events, and the state after."""
    with (
        tempfile.TemporaryDirectory(prefix="mledger-picture-") as directory,
        RunningCluster.start(Path(directory), 3) as cluster,
        subprocess.Popen([sys.executable, __file__, "--own", cluster.url], stdout=subprocess.PIPE, text=True) as owner,
    ):
        assert owner.stdout is not None
        assert owner.stdout.readline() == "written\n"
        owner.kill()
        owner.wait()
        before = asyncio.run(look(cluster.url))
        events = asyncio.run(recover(cluster.url))
        return before, events, asyncio.run(look(cluster.url))


def lines_of(events: list[Event]) -> list[str]:
    """The events in order, but those of a cursor together: cursors are recovered concurrently, and end in any order."""
    cursors = sorted({event.cursor for event in events if hasattr(event, "cursor")})
    first = next(index for index, event in enumerate(events) if hasattr(event, "cursor"))
    ahead = events[:first]
    each = [event for name in cursors for event in events if getattr(event, "cursor", None) == name]
    behind = [event for event in events[first:] if not hasattr(event, "cursor")]
    return [event.describe() for event in (*ahead, *each, *behind)]


def draw_state(state: State, top: int, title: str) -> tuple[list[str], int]:
    """The ledgers as boxes, below them a bar for each cursor; returns the SVG parts, and the y of the next element."""
    parts = [f'<text x="10" y="{top}" class="title">{escape(title)}</text>']
    top += 14
    edge, edges = LEFT, []
    for ledger in state.ledgers:
        width = max(ledger.entries * SCALE, 90)
        kind = "ledger open" if ledger.is_open else "ledger"
        parts.append(f'<rect x="{edge}" y="{top}" width="{width}" height="26" rx="3" class="{kind}"/>')
        said = f"ledger {ledger.ledger_id}" + (f": {ledger.entries}" if ledger.entries else "")
        parts.append(f'<text x="{edge + 6}" y="{top + 18}" class="soft">{said}</text>')
        edges.append(edge)
        edge += width + 8
    top += 34
    for name, done in state.cursors.items():
        parts.append(f'<text x="10" y="{top + 11}">{escape(name)}</text>')
        index = 0
        for left, ledger in zip(edges, state.ledgers, strict=True):
            parts += _bar(done[index : index + ledger.entries], left, top)
            index += ledger.entries
        top += 20
    return parts, top + 24


def _bar(done: list[bool], left: int, top: int) -> list[str]:
    parts, start = [], 0
    for index in range(1, len(done) + 1):
        if index == len(done) or done[index] != done[start]:
            kind = "done" if done[start] else "left"
            at, width = left + start * SCALE, (index - start) * SCALE
            parts.append(f'<rect x="{at}" y="{top}" width="{width}" height="12" class="{kind}"/>')
            start = index
    return parts


def draw(before: State, events: list[Event], after: State) -> str:
    """The picture as SVG text."""
    parts, top = draw_state(before, 22, "What the killed owner left: green is acknowledged, a dashed ledger is open")
    parts.append(f'<text x="10" y="{top}" class="title">What the next owner does</text>')
    for line in lines_of(events):
        top += LINE
        parts.append(f'<text x="24" y="{top}">{escape(line)}</text>')
    rest, top = draw_state(after, top + 40, "What is stored then")
    body = "\n".join([*parts, *rest])
    label = "Recovery of a topic after its owner was killed, drawn from its events"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" aria-label="{label}">\n'
        f"<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def main(arguments: list[str]) -> None:
    """Entry point."""
    if arguments[:1] == ["--own"]:
        asyncio.run(own(arguments[1]))
        return
    target = Path(arguments[0]) if arguments else PICTURE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(*record()))


if __name__ == "__main__":
    main(sys.argv[1:])
