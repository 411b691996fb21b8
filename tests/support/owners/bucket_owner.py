"""An owner in a process of its own that attaches, replaces and detaches ledgers, and kills itself at a step.

`python -m tests.support.owners.bucket_owner URL TOPIC STEP NTH`, as `tests.support.owners.owner`. It prints one JSON
line, the names of the ledgers attached and their first entries, for each state that it knows to be durable.
"""

import asyncio
import sys

import mledger
from mledger.broker.topics.delayed.bucket_format import bucket_name, custom_metadata
from tests.support.owners.owner import dying_at, say
from tests.support.topics import KEEP

ONE, TWO, BOTH = bucket_name(1, 1), bucket_name(2, 2), bucket_name(1, 2)


async def own(url: str, topic: str, step: str, nth: int) -> None:
    async with mledger.open_cluster(url, config=KEEP) as cluster:
        opened = await cluster.open_topic(topic, create=True, take_over=True, on_step=dying_at(step, nth))
        cursor = await opened.open_cursor("sub")
        await opened.initialized()
        say(attached={})

        async def attach(name: str, *replacing: str) -> None:
            await cursor.attach_ledger(name, custom_metadata(name, topic, "sub"), [name.encode()], replacing)

        await attach(ONE)
        say(attached={ONE: ONE})
        await attach(TWO)
        say(attached={ONE: ONE, TWO: TWO})
        await attach(BOTH, ONE, TWO)
        say(attached={BOTH: BOTH})
        await cursor.detach_ledgers([BOTH])
        say(attached={})
        await opened.close()


if __name__ == "__main__":
    asyncio.run(own(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
