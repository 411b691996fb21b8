"""A broker in a process of its own that compacts a topic twice, and kills itself at a step.

`python -m tests.support.owners.compaction_owner URL TOPIC STEP NTH`, as `tests.support.owners.owner`: the steps count
from the first compaction on. It prints one JSON line with the number of compactions that are done, and after each.
"""

import asyncio
import sys

from tests.support.brokers.served_broker import served
from tests.support.compacted_topics import compacted, publish_keyed
from tests.support.owners.owner import dying_at, say

ROUNDS = (("a1", "b1", "a2"), ("b2", "c1"))


async def own(url: str, topic: str, step: str, nth: int) -> None:
    async with served(url) as broker:
        client = await broker.connect()
        await client.producer(topic=topic)
        for done, values in enumerate(ROUNDS):
            await publish_keyed(client, *values)
            if not done:
                (opened,) = broker.cluster.opened.values()
                opened.compacted_ledgers._factory.on_step = dying_at(step, nth)
            say(done=done)
            await compacted(broker, topic)
        say(done=len(ROUNDS))


if __name__ == "__main__":
    asyncio.run(own(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
