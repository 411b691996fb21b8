"""A batched store over a real ZooKeeper keeps everything that the store behind it knows."""

import asyncio

from mledger.metastore.batched_store import batched
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run

CLOSED = ("ip:127.0.0.1:crwda",)


def test_access_control_lists_are_passed_on_and_read(metadata_url):
    async def main():
        async with batched(await open_store(metadata_url)) as store:
            await store.multi([Create("/alone", acl=CLOSED)])
            await asyncio.gather(*(store.multi([Create(path, acl=CLOSED)]) for path in ("/one", "/other")))
            return await store.acl_many(["/alone", "/one", "/other", "/none"])

    assert run(main()) == [CLOSED, CLOSED, CLOSED, ()]
