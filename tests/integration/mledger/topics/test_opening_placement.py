"""Topics of a namespace with a bookie affinity group, on bookies of three groups (Q1)."""

import json
from dataclasses import replace

import mledger
from mledger.metastore.cluster.racks import RACKS_PATH
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup, ledger_affinity
from tests.support.aio import run
from tests.support.ledgers import QUICK
from tests.support.topics import KEEP, everything, fill, ledgers_naming, payloads

CONFIG = replace(KEEP, ensemble_size=2, write_quorum_size=2, ack_quorum_size=2)
WIDE = BookieAffinityGroup("silver", "bronze")


async def name_groups(store, groups):
    """Put each bookie into its group, and have the namespaces `tests/gold` and `tests/wide` ask for groups."""
    mapping = {name: {each.bookie_id: {"rack": "/r"} for each in group} for name, group in groups.items()}
    await store.create(RACKS_PATH, json.dumps(mapping).encode())
    for namespace, primary, secondary in (("gold", "gold", None), ("wide", WIDE.primary, WIDE.secondary)):
        group = {"bookkeeperAffinityGroupPrimary": primary, "bookkeeperAffinityGroupSecondary": secondary}
        data = json.dumps({"bookieAffinityGroup": group}).encode()
        await store.create(f"/admin/local-policies/tests/{namespace}", data, parents=True)


async def placed(cluster, topic):
    """The bookies of all ledgers of the topic, its cursors' too, and how many ledgers there are."""
    ledgers = await ledgers_naming(cluster.store.url, topic.name)
    found = [await cluster.bookkeeper.metadata(ledger) for ledger in ledgers]
    return {bookie for metadata in found for each in metadata.segments for bookie in each.bookies}, len(found)


def test_all_ledgers_of_a_topic_are_on_its_namespace_s_groups_and_stay_there_when_a_bookie_is_killed(bookies):
    bookies.start(5)
    ids = [each.bookie_id for each in bookies]

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=CONFIG, client=QUICK) as cluster:
            await name_groups(cluster.store, {"gold": bookies[:3], "silver": bookies[3:4], "bronze": bookies[4:5]})
            topic = await cluster.create_topic("persistent://tests/gold/a")
            cursor = await topic.open_cursor("c")
            positions = await fill(topic, 25)
            await cursor.acknowledge([positions[3], positions[12]])
            found, count = await placed(cluster, topic)
            assert found <= set(ids[:3])
            assert count == 4  # three of its own, one of the cursor

            current = await cluster.bookkeeper.metadata(positions[-1].ledger_id)
            killed = current.ensemble[0]
            bookies.kill(ids.index(killed))
            await fill(topic, 2, 25)
            current = await cluster.bookkeeper.metadata(positions[-1].ledger_id)
            assert killed not in current.ensemble
            assert {bookie for each in current.segments for bookie in each.bookies} == set(ids[:3])
            assert await everything(topic) == payloads(27)

            wide = await cluster.create_topic("persistent://tests/wide/a")  # silver is one bookie: bronze joins
            assert await placed(cluster, wide) == (set(ids[3:]), 1)
            (ledger,) = await ledgers_naming(bookies.metadata_url, wide.name)
            assert ledger_affinity((await cluster.bookkeeper.metadata(ledger)).custom_metadata) == WIDE

    run(main())
