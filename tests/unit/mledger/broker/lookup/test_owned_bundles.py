"""A bundle that was split is claimed by nobody any more, since others may serve its parts."""

import json

import pytest

from mledger.broker.lookup.broker_records import BrokerAddress, encode_bundle_owner
from mledger.broker.lookup.owned_bundles import Bundle, OwnedBundles
from mledger.metastore.errors import BadVersion
from mledger.metastore.url import open_store
from tests.support.aio import run

ADDRESS = BrokerAddress("127.0.0.1:6650", "pulsar://127.0.0.1:6650")
OTHER = BrokerAddress("127.0.0.1:6651", "pulsar://127.0.0.1:6651")
WHOLE = Bundle("public/default", "0x00000000_0xffffffff")
HALF = Bundle("public/default", "0x00000000_0x7fffffff")
OTHER_HALF = Bundle("public/default", "0x7fffffff_0xffffffff")


async def split(store):
    """Write local policies with halves, as a split does."""
    bundles = {"boundaries": ["0x00000000", "0x7fffffff", "0xffffffff"], "numBundles": 2}
    await store.create("/admin/local-policies/public/default", json.dumps({"bundles": bundles}).encode(), parents=True)


def test_a_bundle_that_was_split_since_its_lookup_is_not_claimed():
    """As by a broker that had read that the namespace has no local policies yet, of which it could check a version."""

    async def main():
        async with await open_store("memory:") as store:
            owned = OwnedBundles(store, ADDRESS)
            await split(store)
            with pytest.raises(BadVersion, match="was split"):
                await owned.claim(WHOLE)
            assert (list(owned), await store.exists(WHOLE.path)) == ([], None)
            assert await owned.claim(HALF) == ADDRESS.urls
            assert list(owned) == [HALF]

    run(main())


def test_a_bundle_that_was_split_while_the_session_ended_is_not_taken_back():
    async def main():
        async with await open_store("memory:") as store:
            owned = OwnedBundles(store, ADDRESS)
            await owned.claim(WHOLE)
            await store.delete(WHOLE.path)  # as at the end of the session
            await split(store)
            await store.create(HALF.path, encode_bundle_owner(OTHER), ephemeral=True)
            assert await owned.reclaim() == [WHOLE]
            assert (list(owned), await store.exists(WHOLE.path)) == ([], None)

    run(main())


def test_a_part_of_a_bundle_that_was_split_is_taken_back():
    async def main():
        async with await open_store("memory:") as store:
            owned = OwnedBundles(store, ADDRESS)
            await split(store)
            await owned.claim(OTHER_HALF)
            await store.delete(OTHER_HALF.path)
            assert await owned.reclaim() == []
            assert await store.exists(OTHER_HALF.path) is not None

    run(main())


def test_a_bundle_whose_namespace_has_unreadable_local_policies_is_taken_back():
    async def main():
        async with await open_store("memory:") as store:
            owned = OwnedBundles(store, ADDRESS)
            await owned.claim(WHOLE)
            await store.delete(WHOLE.path)
            await store.create("/admin/local-policies/public/default", b"{", parents=True)
            assert await owned.reclaim() == []
            assert list(owned) == [WHOLE]

    run(main())
