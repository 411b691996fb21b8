"""A topic ends at its last entry, also if it was opened anew before it was terminated (M8)."""

import pytest

import mledger
from tests.support.aio import run
from tests.support.topics import KEEP, assert_nothing_orphaned, everything, fill, payloads


def test_a_topic_that_is_terminated_in_an_empty_ledger_ends_at_its_last_entry(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            ahead, behind = await opened.open_cursor("ahead"), await opened.open_cursor("behind")
            positions = await fill(opened, 22)
            await ahead.acknowledge_cumulative(positions[-1])
            await behind.acknowledge_cumulative(positions[3])
            await opened.close()
            opened = await cluster.open_topic(topic)
            await opened.initialized()  # moves `ahead` to the new ledger
            assert await opened.terminate() == opened.last_confirmed == positions[-1]
            for _ in range(2):
                for name, backlog in (("ahead", 0), ("behind", 18)):
                    cursor = await opened.open_cursor(name, create=False)
                    assert cursor.backlog == backlog
                    assert len(await cursor.read(100)) == backlog
                    with pytest.raises(mledger.TopicTerminated):
                        await cursor.read_or_wait(1)
                await opened.close()
                opened = await cluster.open_topic(topic)
                await opened.initialized()
                assert opened.terminated == opened.last_confirmed == positions[-1]
            assert await everything(opened) == payloads(22)
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())
