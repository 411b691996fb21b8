"""Owners that die: `python -m tests.field_failures.owners SCENE URL TOPIC` plays a scene and kills itself with SIGKILL.

It prints a JSON line for each thing that it was told is durable.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from subprocess import PIPE
from typing import Any

import mledger
from tests.support.bookies.processes import ROOT
from tests.support.forked_python import ForkedPython
from tests.support.topics import KEEP, fill

HOLES = 1_000_000
_CHUNK = 20_000
MANY = replace(
    KEEP,
    ensemble_size=1,
    write_quorum_size=1,
    ack_quorum_size=1,
    max_entries_per_ledger=4 * HOLES,
    throttle_mark_delete=0,
)


def say(**known: object) -> None:
    """Print what is durable now."""
    print(json.dumps(known), flush=True)


async def scattered(opened: mledger.ManagedLedger) -> None:
    """Acknowledge every third of 60 entries durably, then every other of the rest without waiting."""
    cursor = await opened.open_cursor("sub")
    positions = await fill(opened, 60)
    say(appended=positions)
    flushed = positions[1::3]
    await cursor.acknowledge(flushed)
    say(flushed=flushed)
    later = positions[2::6]
    say(asked=later)
    for position in later:
        cursor.acknowledge([position])


async def a_million_holes(opened: mledger.ManagedLedger) -> None:
    """Acknowledge every other entry of two million, except the first ones."""
    cursor = await opened.open_cursor("sub")
    appends: list[asyncio.Future[Any]] = []
    for number in range(2 * HOLES // _CHUNK):
        appends.append(opened.append([b""] * _CHUNK))
        await appends[max(0, number - 4)]
    await appends[-1]
    ledger = appends[0].result()[0].ledger_id
    await cursor.acknowledge([mledger.Position(ledger, entry) for entry in range(1, 2 * HOLES, 2)])
    say(ledger=ledger)


async def with_properties(opened: mledger.ManagedLedger) -> None:
    """Acknowledge with position properties on a cursor with properties."""
    cursor = await opened.open_cursor("sub", cursor_properties={"who": "me"})
    positions = await fill(opened, 12)
    await cursor.acknowledge_cumulative(positions[3], {"CompactedTopicLedger": 4711})
    await cursor.acknowledge([positions[6]])
    say(cursor_ledger=cursor.cursor_ledger, mark_delete=positions[3])


async def first_missed(opened: mledger.ManagedLedger) -> None:
    """Acknowledge all of 3,000 entries except the first and the last."""
    cursor = await opened.open_cursor("sub")
    positions = await fill(opened, 3_000)
    await cursor.acknowledge(positions[1:-1])
    say(first=positions[0], last=positions[-1])


async def cleared(opened: mledger.ManagedLedger) -> None:
    """Deliver without acknowledgements, then clear the backlog."""
    cursor = await opened.open_cursor("sub")
    await fill(opened, 25)
    delivered = await cursor.read(25)
    await cursor.clear_backlog()
    cursor.rewind()
    say(delivered=len(delivered), after_clearing=len(await cursor.read(25)))


SCENES = {
    "scattered": (scattered, KEEP),
    "holes": (a_million_holes, MANY),
    "properties": (with_properties, KEEP),
    "first missed": (first_missed, replace(KEEP, max_entries_per_ledger=1_000)),
    "cleared": (cleared, KEEP),
}


async def until_death(module: str, *arguments: str) -> dict[str, list[Any]]:
    """Run an owner until it has died by SIGKILL. Returns what it printed, by name."""
    process = ForkedPython([sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=PIPE, stderr=PIPE)
    out, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL, err.decode()
    said: dict[str, list[Any]] = {}
    for line in out.splitlines():
        for name, value in json.loads(line).items():
            said.setdefault(name, []).append(value)
    return said


async def play(scene: str, url: str, topic: str) -> dict[str, Any]:
    """What the owner of a scene printed before it died."""
    return {name: values[-1] for name, values in (await until_death(__name__, scene, url, topic)).items()}


async def _main(scene: str, url: str, topic: str) -> None:
    act, config = SCENES[scene]
    async with mledger.open_cluster(url, config=config) as cluster:
        await act(await cluster.create_topic(topic))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
