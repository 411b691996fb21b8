"""What a managed ledger answers once another owner has its topic."""

import pytest

import mledger
from tests.support.aio import run
from tests.support.topics import KEEP


def test_a_former_owner_is_told_so_though_its_truncation_has_nothing_to_write(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            async with mledger.open_cluster(topic_url, config=KEEP) as elsewhere:
                await (await elsewhere.open_topic(topic, take_over=True)).open_cursor("sub")
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opened.truncate()

    run(main())
