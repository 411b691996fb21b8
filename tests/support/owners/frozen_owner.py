"""An owner that is frozen until its session has ended: `python -m tests.support.owners.frozen_owner URL TOPIC`.

It prints `ready`. After a line on stdin it writes on and prints what it gets.
"""

import asyncio
import sys

import mledger
from tests.support.topics import KEEP, fill, payloads
from tests.support.zookeeper.server import SHORT_SESSION_S


async def main(url: str, topic: str) -> None:
    async with mledger.open_cluster(url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
        opened = await cluster.create_topic(topic)
        positions = await fill(opened, 9)
        cursor = await opened.open_cursor("sub")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for work in (lambda: opened.append(payloads(5, 9)), lambda: cursor.acknowledge(positions[:1])):
            try:
                await work()
            except mledger.ManagedLedgerFenced as error:
                print(error, flush=True)
        print(opened.state.value, cursor.status.value, cursor.backlog, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
