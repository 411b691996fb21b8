"""A command that writes looks for an owner first (M9)."""

import asyncio

import pytest

import mledger as public
from tests.support.aio import run
from tests.support.cli import mledger, ok


def test_a_live_owner_is_left_alone_unless_taken_over(url, topic) -> None:
    async def main() -> None:
        async with public.open_cluster(url) as cluster:
            owned = await cluster.create_topic(topic)
            refused = await asyncio.to_thread(mledger, "topics", "produce", topic, "--count", 1, url=url)
            assert refused.code == 4
            assert "--take-over" in refused.err
            await owned.add(b"still the owner")
            await asyncio.to_thread(ok, "topics", "produce", topic, "--count", 1, "--take-over", url=url)
            with pytest.raises(public.ManagedLedgerFenced):
                await owned.add(b"no longer")
            await owned.abandon()

    run(main())
