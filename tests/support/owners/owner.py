"""An owner in a process of its own that does some of everything, and kills itself at a step.

`python -m tests.support.owners.owner URL TOPIC [STEP NTH]`: the process kills itself with SIGKILL when it reaches STEP
for the NTH time, or at the end if there is no STEP. It prints one JSON line for each thing that it knows to be durable.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace

import mledger
from tests.support.topics import CONFIG, fill

APPENDS, BATCH = 5, 5
ACKED_ALONE = 8
OWNER_CONFIG = replace(CONFIG, metadata_max_entries_per_ledger=3)


def say(**known: object) -> None:
    """Print what is durable now."""
    print(json.dumps(known), flush=True)


def dying_at(step: str, nth: int):
    """A step hook that kills the process."""
    left = nth

    def hook(reached: str) -> None:
        nonlocal left
        if reached == step:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


async def own(url: str, topic: str, step: str, nth: int) -> None:
    async with mledger.open_cluster(url, config=OWNER_CONFIG) as cluster:
        opened = await cluster.open_topic(topic, create=True, take_over=True, on_step=dying_at(step, nth))
        one, two = await opened.open_cursor("one"), await opened.open_cursor("two")
        say(cursors=["one", "two"])
        positions: list[mledger.Position] = []
        for number in range(APPENDS):
            positions += await fill(opened, BATCH, BATCH * number)
            say(appended=len(positions))
        for number in range(1, ACKED_ALONE):
            await one.acknowledge([positions[number]])
            say(acknowledged=positions[number])
        await one.acknowledge([positions[0]])
        for cursor in (one, two):
            await cursor.acknowledge_cumulative(positions[OWNER_CONFIG.max_entries_per_ledger - 1])
        await opened.trim()
        await two.clear_backlog()
        say(cleared="two")
        await one.clear_backlog()
        say(cleared="one")
        await opened.trim()
        say(trimmed=True)
        await opened.delete_cursor("two")
        say(deleted="two")
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    url, topic, *rest = sys.argv[1:]
    asyncio.run(own(url, topic, rest[0] if rest else "", int(rest[1]) if rest else 0))
