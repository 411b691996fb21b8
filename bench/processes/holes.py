"""An owner whose cursors have their own ledgers with holes in their state; it reports this, then waits to be killed."""

import argparse
import asyncio
import json
import sys
from dataclasses import replace

import uvloop

import mledger
from bench.rig.cluster import SWITCH_INTERVAL_S
from bench.workload.topic import CONFIG, NAME

CURSORS_AT_ONCE = 50


def cursor_names(count: int) -> list[str]:
    """What the cursors are called."""
    return [f"cursor-{number:04}" for number in range(count)]


def hole_positions(ledger_id: int, holes: int) -> list[mledger.Position]:
    """Every other entry from the second on: each is a hole of its own."""
    return [mledger.Position(ledger_id, 1 + 2 * number) for number in range(holes)]


async def own(args: argparse.Namespace) -> None:
    """Set the topic up, print one line, and wait to be killed."""
    async with mledger.open_cluster(args.metadata) as cluster:
        ledger = await cluster.create_topic(NAME, config=replace(CONFIG, throttle_mark_delete=0))
        await ledger.append([b"entry %d" % number for number in range(2 * args.holes + 1)])
        positions = hole_positions(ledger.ledgers[0].ledger_id, args.holes)
        at_once = asyncio.Semaphore(CURSORS_AT_ONCE)

        async def punch(name: str) -> None:
            async with at_once:
                cursor = await ledger.open_cursor(name, initial="earliest")
                await cursor.acknowledge(positions)

        await asyncio.gather(*map(punch, cursor_names(args.cursors)))
        print(json.dumps({"entries": ledger.number_of_entries}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Own the topic until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--cursors", type=int, required=True)
    parser.add_argument("--holes", type=int, required=True)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    uvloop.run(own(parser.parse_args()))


if __name__ == "__main__":
    main()
