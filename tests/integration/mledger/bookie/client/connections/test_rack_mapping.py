"""Ensembles over the racks in Pulsar's `/bookies` (Q1)."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from mledger.bookie.client.plans.topology import PlacementPolicy
from mledger.bookie.errors import NotEnoughRacks
from mledger.metastore.cluster.racks import RACKS_PATH
from mledger.metastore.errors import RecordError
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.ledgers import QUICK, client, payloads

ENFORCED = replace(QUICK, placement=PlacementPolicy(enforce_min_racks=True))


def mapping(bookies, racks, group="default"):
    """A mapping with a rack for each of the bookies."""
    named = {each.bookie_id: {"rack": rack, "hostname": ""} for each, rack in zip(bookies, racks, strict=True)}
    return json.dumps({group: named}).encode()


async def name_racks(url, data):
    """Write the mapping as `pulsar-admin bookies set-bookie-rack` does."""
    async with await open_store(url) as store:
        if await store.exists(RACKS_PATH) is None:
            await store.create(RACKS_PATH, data)
        else:
            await store.put(RACKS_PATH, data, ANY_VERSION)


def test_no_ledger_is_on_one_rack_if_there_are_two(cluster):
    async def main():
        racks = ["/r1", "/r1", "/r1", "/r2"]
        await name_racks(cluster.metadata_url, mapping(cluster, racks))
        rack_of = {bookie.bookie_id: rack for bookie, rack in zip(cluster, racks, strict=True)}
        async with client(cluster.metadata_url) as bookkeeper:
            for _ in range(40):
                writer = await bookkeeper.create_ledger(2, 2, 2)
                assert {rack_of[bookie] for bookie in writer.metadata.ensemble} == {"/r1", "/r2"}
                await writer.abandon()

    run(main())


def test_a_replacement_is_on_the_failed_bookie_s_rack_if_the_other_copy_is_on_the_other(bookies):
    bookies.start(4)

    async def main():
        racks = ["/r1", "/r1", "/r2", "/r2"]
        await name_racks(bookies.metadata_url, mapping(bookies, racks))
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            numbers = [number for number, each in enumerate(bookies) if each.bookie_id in writer.metadata.ensemble]
            bookies.kill(numbers[0])
            await writer.append(payloads(10))
            other = next(number for number in range(4) if racks[number] == racks[numbers[0]] and number != numbers[0])
            assert set(writer.metadata.ensemble) == {bookies[other].bookie_id, bookies[numbers[1]].bookie_id}

    run(main())


def test_the_error_names_enforced_racks_until_the_mapping_has_them(cluster):
    async def main():
        url = cluster.metadata_url
        await name_racks(url, mapping(cluster, ["/r1", "/r1", "/r1", "/r1"]))
        async with client(url, ENFORCED) as bookkeeper:
            with pytest.raises(NotEnoughRacks, match=r"/r1 \(4\), and 0 have none"):
                await bookkeeper.create_ledger(2, 2, 2)
            await name_racks(url, mapping(cluster, ["/r1", "/r1", "/r1", "/r2"]))
            while True:
                try:
                    writer = await bookkeeper.create_ledger(2, 2, 2)
                except NotEnoughRacks:
                    await asyncio.sleep(0.2)  # the cached mapping may be 5 s old
                else:
                    break
            assert cluster[3].bookie_id in writer.metadata.ensemble

    run(main(), timeout=60.0)


def test_only_bookies_of_the_isolation_group_are_chosen(cluster):
    async def main():
        groups = {
            "gold": {each.bookie_id: {"rack": "/r"} for each in cluster[:2]},
            "other": {each.bookie_id: {"rack": "/r"} for each in cluster[2:]},
        }
        await name_racks(cluster.metadata_url, json.dumps(groups).encode())
        config = replace(QUICK, placement=PlacementPolicy(isolation_groups=frozenset({"gold"})))
        async with client(cluster.metadata_url, config) as bookkeeper:
            for _ in range(10):
                writer = await bookkeeper.create_ledger(2, 2, 2)
                assert set(writer.metadata.ensemble) == groups["gold"].keys()

    run(main())


def test_a_damaged_mapping_stops_only_clients_that_require_it(cluster):
    async def main():
        await name_racks(cluster.metadata_url, b"{")
        async with client(cluster.metadata_url) as bookkeeper:
            await bookkeeper.create_ledger(2, 2, 2)
        async with client(cluster.metadata_url, ENFORCED) as bookkeeper:
            with pytest.raises(RecordError, match="racks at /bookies cannot be read"):
                await bookkeeper.create_ledger(2, 2, 2)

    run(main())
