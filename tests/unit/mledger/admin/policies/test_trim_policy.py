"""Whether a topic is trimmed automatically: as it was opened, and unless a broker serves the cluster (M10)."""

import pytest

from mledger.admin.policies.topic_policies import PolicyReader
from mledger.admin.policies.trim_policy import TrimPolicy, check_retention_known, live_broker
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.config import ManagedLedgerConfig
from mledger.errors import RetentionUnknown
from mledger.ledgers.bundles import CLUSTERS, LIVE_BROKERS
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, RetentionOrigin
from mledger.metastore.url import open_store
from tests.support.aio import run

BROKER = f"{LIVE_BROKERS}/localhost:8080"
NAME = "public/default/persistent/topic"


def with_store(test):
    """Turn a coroutine function into a test with an empty store in memory."""

    def call():
        async def main():
            async with await open_store("memory:") as store:
                await test(store)

        run(main())

    return call


def policy(store, trim, *, given=False):
    """The trim policy of a topic that was opened with `trim`, by a configuration that was given or not."""
    return TrimPolicy(
        PolicyReader(store, BookKeeperReader(store)), store, NAME, ManagedLedgerConfig(), trim, given=given
    )


async def start_broker(store):
    """Register a live broker."""
    await store.create(BROKER, b"{}", ephemeral=True, parents=True)


@with_store
async def test_without_a_broker_a_topic_is_trimmed(store):
    assert await policy(store, None).why_not() == ""


@with_store
async def test_trimming_is_left_to_a_live_broker_which_is_named(store):
    await start_broker(store)
    assert BROKER in await policy(store, None).why_not()


@with_store
async def test_a_topic_opened_to_be_trimmed_is_trimmed_beside_a_broker(store):
    await start_broker(store)
    assert await policy(store, True, given=True).why_not() == ""


@with_store
async def test_a_topic_opened_not_to_be_trimmed_is_not(store):
    assert "switched off" in await policy(store, False).why_not()


@with_store
async def test_a_broker_s_node_without_a_session_is_not_live(store):
    await store.create(BROKER, b"{}", parents=True)
    assert await live_broker(store) is None


@with_store
async def test_everything_is_kept_until_the_retention_was_read(store):
    opened = policy(store, None)
    assert opened.known == KEEP_ALL
    assert await opened.retention() == opened.known != KEEP_ALL


@with_store
async def test_nothing_is_trimmed_by_a_default_that_may_not_be_the_brokers(store):
    """They are down, and their default may keep what ours deletes."""
    await store.create(LIVE_BROKERS, b"", parents=True)
    for trim in (None, True):
        assert "defaultRetentionTimeInMinutes" in await policy(store, trim).why_not()
        assert await policy(store, trim, given=True).why_not() == ""


@with_store
async def test_while_the_default_is_not_known_everything_is_kept(store):
    await store.create(LIVE_BROKERS, b"", parents=True)
    opened = policy(store, None)
    with pytest.raises(RetentionUnknown):
        await opened.check_known(await opened.retention())
    assert opened.known == KEEP_ALL


NOTHING_BY_DEFAULT = RetentionInForce(0, 0, RetentionOrigin.DEFAULT)


@with_store
async def test_the_default_that_brokers_have_is_not_guessed(store):
    await check_retention_known(store, NAME, NOTHING_BY_DEFAULT, given=False)
    await store.create(f"{CLUSTERS}/cluster", b"{}", parents=True)
    with pytest.raises(RetentionUnknown, match="persistent://public/default/topic"):
        await check_retention_known(store, NAME, NOTHING_BY_DEFAULT, given=False)


@with_store
async def test_what_a_policy_sets_or_settings_say_is_known_though_brokers_have_a_default(store):
    await start_broker(store)
    await check_retention_known(store, NAME, NOTHING_BY_DEFAULT, given=True)
    await check_retention_known(store, NAME, RetentionInForce(0, 0, RetentionOrigin.NAMESPACE), given=False)
    with pytest.raises(RetentionUnknown):
        await check_retention_known(store, NAME, NOTHING_BY_DEFAULT, given=False)
