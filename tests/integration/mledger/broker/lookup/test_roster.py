"""A broker's node among the live brokers: its load is reported again when it changes."""

import asyncio
import contextlib
import json
from dataclasses import replace

from mledger.broker.lookup.broker_records import BrokerAddress, BrokerLoad
from mledger.broker.lookup.roster import BrokerRoster
from mledger.broker.settings import BrokerSettings
from mledger.ledgers.bundles import LIVE_BROKERS
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.url import open_store
from tests.support.aio import run

ADDRESS = BrokerAddress("127.0.0.1:6650", "pulsar://127.0.0.1:6650")
PATH = f"{LIVE_BROKERS}/{ADDRESS.name}"
SETTINGS = replace(BrokerSettings(), report_check_s=0.001, rates_interval_s=0.001)


class Load:
    """What a broker has to do, and how often it was asked."""

    def __init__(self):
        self.now, self.asked = BrokerLoad(messages_in=100.0), 0

    def __call__(self):
        self.asked += 1
        return self.now


@contextlib.asynccontextmanager
async def registered(settings=SETTINGS):
    """A store with a registered broker, and the broker's load."""
    load = Load()
    async with await open_store("memory:") as store:
        roster = BrokerRoster(store, ADDRESS, load, settings)
        await roster.register()
        roster.check.start()
        yield store, load
        roster.check.stop()


async def reported(store, rate):
    """Wait until the broker's node has this rate of messages."""
    while json.loads((await store.get(PATH)).data)["msgRateIn"] != rate:
        await asyncio.sleep(0)


def test_a_load_that_changed_is_reported():
    async def main():
        async with registered() as (store, load):
            load.now = BrokerLoad(messages_in=120.0)
            await reported(store, 120.0)

    run(main())


def test_a_load_that_could_not_be_written_is_reported_at_the_next_look(monkeypatch):
    async def main():
        async with registered() as (store, load):
            put = store.put

            async def fail_once(*_):
                monkeypatch.setattr(store, "put", put)
                raise StoreUnavailable("it is restarted")

            monkeypatch.setattr(store, "put", fail_once)
            load.now = BrokerLoad(messages_in=120.0)
            await reported(store, 120.0)

    run(main())


def test_a_load_that_changed_little_is_not_written():
    async def main():
        async with registered() as (store, load):
            load.now = BrokerLoad(messages_in=105.0)
            before = load.asked
            while load.asked < before + 3:
                await asyncio.sleep(0)
            assert (await store.get(PATH)).version == 0

    run(main())


def test_a_load_that_stays_is_written_again_after_the_longest_time():
    async def main():
        async with registered(replace(SETTINGS, longest_report_s=0.0)) as (store, _):
            while (await store.get(PATH)).version == 0:
                await asyncio.sleep(0)

    run(main())
