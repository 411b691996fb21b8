"""Inspects a topic whose owner keeps writing."""

from mledger import open_cluster
from mledger.admin.inspect import Inspector
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.metastore.url import open_reader
from tests.support.aio import run
from tests.support.topics import KEEP, fill


class MeanwhileWriting(BookKeeperReader):
    """Makes the topic's owner append and acknowledge after the first ledger was read."""

    def __init__(self, store, meanwhile):
        super().__init__(store, ClientConfig())
        self._meanwhile = meanwhile

    async def peek(self, ledger_id, password, **options):
        found = await super().peek(ledger_id, password, **options)
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return found


def test_a_live_cursor_is_never_past_the_visible_end(topic_url, topic):
    async def main():
        async with open_cluster(topic_url, config=KEEP) as cluster, await open_reader(topic_url) as reader:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            await cursor.acknowledge_cumulative((await fill(opened, 5))[-1])
            await cursor.flush()

            async def go_on():
                await cursor.acknowledge_cumulative((await fill(opened, 20))[-1])
                await cursor.flush()

            bookies = MeanwhileWriting(reader, go_on)
            (found,) = await Inspector(reader, bookies).cursors(topic)
            await bookies.close()
            assert found.error is None
            assert found.plan.warnings == ()
            await opened.close()

    run(main())
