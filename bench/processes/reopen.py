"""Opens a topic whose owner was killed, and measures the time to the first append and to the last recovered cursor."""

import argparse
import asyncio
import json
import sys
import time

import uvloop

import mledger
from bench.processes.holes import cursor_names, hole_positions
from bench.rig.cluster import SWITCH_INTERVAL_S
from bench.workload.topic import CONFIG, NAME


class WrongCursor(Exception):
    """A recovered cursor is not where it was."""


async def reopen(args: argparse.Namespace) -> dict[str, float]:
    """Open, append while cursors load, wait for them, check each; milliseconds from `open_topic` on."""
    async with mledger.open_cluster(args.metadata) as cluster:
        start = time.perf_counter()
        ledger = await cluster.open_topic(NAME, config=CONFIG, take_over=True)
        await ledger.append([b"first"])
        first = time.perf_counter() - start
        cursors = await asyncio.gather(*map(ledger.open_cursor, cursor_names(args.cursors)))
        recovered = time.perf_counter() - start
        deleted = set(hole_positions(ledger.ledgers[0].ledger_id, args.holes))
        expected = 2 * args.holes + 2 - len(deleted)
        for cursor in cursors:
            found = sum(hole.upper.entry_id - hole.lower.entry_id for hole in cursor.holes)
            if len(cursor.holes) != args.holes or found != args.holes or cursor.backlog != expected:
                raise WrongCursor(f"{cursor.name} has {len(cursor.holes)} holes and a backlog of {cursor.backlog}")
        await ledger.close()
    return {"first_append_ms": 1e3 * first, "recovered_ms": 1e3 * recovered}


def main() -> None:
    """Open the topic and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--cursors", type=int, required=True)
    parser.add_argument("--holes", type=int, required=True)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print(json.dumps(uvloop.run(reopen(parser.parse_args()))))


if __name__ == "__main__":
    main()
