"""A broker's bundles are given up and taken back, also after an error that nobody expected."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from mledger.broker.lookup import handover
from mledger.broker.lookup.broker_records import BrokerAddress, encode_bundle_owner
from mledger.broker.lookup.handover import BundleHandover
from mledger.broker.lookup.owned_bundles import Bundle, OwnedBundles
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run

ADDRESS = BrokerAddress("127.0.0.1:6650", "pulsar://127.0.0.1:6650")
BUNDLE = Bundle("public/default", "0x00000000_0xffffffff")


def failing_once(done):
    """Something that a broker does: it fails at first, and sets the event `done` when it is done again."""
    failures = [KeyError("nobody expected it")]

    async def work(*_):
        if failures:
            raise failures.pop()
        done.set()

    return work


@contextlib.asynccontextmanager
async def owning(done):
    """A store, and the hand-over of a broker that owns a bundle; at first it fails to register and to close topics."""

    async def reports():
        return []

    async with await open_store("memory:") as store:
        roster = SimpleNamespace(address=ADDRESS, register=failing_once(done), reports=reports, changed=lambda: None)
        lookup = SimpleNamespace(store=store, roster=roster, owned=OwnedBundles(store, ADDRESS), stopping=False)
        made = BundleHandover(lookup, SimpleNamespace(give_up=failing_once(done)))
        await lookup.owned.claim(BUNDLE)
        async with asyncio.timeout(HANG_S):
            yield store, made


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    monkeypatch.setattr(handover, "RETRY_S", 0.0)


def test_a_bundle_marked_for_unloading_is_unloaded_after_an_attempt_that_failed():
    async def main():
        done = asyncio.Event()
        async with owning(done) as (store, _):
            await store.put(BUNDLE.path, encode_bundle_owner(ADDRESS, disabled=True), 0)
            await done.wait()
            while await store.exists(BUNDLE.path):
                await asyncio.sleep(0)

    run(main())


def test_a_broker_registers_in_a_new_session_after_an_attempt_that_failed():
    async def main():
        done = asyncio.Event()
        async with owning(done) as (_, made):
            made.session_renewed()
            await done.wait()

    run(main())
