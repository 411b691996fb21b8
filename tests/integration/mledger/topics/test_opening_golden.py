"""Topics of Java, loaded from each dump into real stores and opened: we find what Java had then.

Intended differences (docs/reference/semantics.md, last section) are asserted as differences.
"""

import pytest

import mledger
from mledger.events import CursorRecovered
from mledger.metastore.records.position import Position
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.recordings.golden_loading import draw_ids, load, unload, worlds
from tests.support.recordings.plan_only_open import now_ms
from tests.support.recordings.scenarios import Reopening, parse_ranges, reopenings, scenario_paths
from tests.support.topics import Events, everything, ledgers_naming, recount

REOPENINGS = [each for path in scenario_paths() for each in reopenings(path)]
WORLDS = worlds(REOPENINGS)
ABOVE_ALL_IDS = 1000

# (scenario, stage): what Java lost and we keep
BATCHES_KEPT = {("cursor-batch", "cumulative"), ("cursor-batch", "closed")}
RANGES_KEPT = {("cursor-too-many-holes-longarray", "reopened after crash")}
PROPERTIES_KEPT = {("cursor-ledger-deleted", "before reopen")}
LEDGER_PROPERTIES_KEPT = {("properties", "closed")}


@pytest.fixture(scope="session")
def world(shared_zookeeper, _new_chroot, tmp_path_factory):
    """Clusters with different ledger ids, started on demand."""
    started: dict[int, BookieProcesses] = {}

    def get(number: int) -> BookieProcesses:
        if number not in started:
            url = shared_zookeeper.url + _new_chroot()
            initialize_cluster(url)
            started[number] = BookieProcesses(url, tmp_path_factory.mktemp(f"world-{number}"))
            started[number].start(3)

            async def prepare():
                async with await open_store(url) as store:
                    await draw_ids(store, ABOVE_ALL_IDS)

            run(prepare())
        return started[number]

    yield get
    for bookies in started.values():
        bookies.close()


def config_of(case: Reopening) -> mledger.ManagedLedgerConfig:
    return mledger.ManagedLedgerConfig(
        ensemble_size=case.config["ensembleSize"],
        write_quorum_size=case.config["writeQuorumSize"],
        ack_quorum_size=case.config["ackQuorumSize"],
        retention_time_ms=case.config["retentionTimeMs"],
        retention_size_in_mb=case.config["retentionSizeInMB"],
        max_unacked_ranges_to_persist_in_metadata_store=case.config["maxUnackedRangesToPersistInMetadataStore"],
    )


class Ids:
    """Ledger ids of the recording as they are here: only the ledger created by the opening has another."""

    def __init__(self, case: Reopening, opened: mledger.ManagedLedger) -> None:
        made = next((ledger["ledgerId"] for ledger in case.state["ledgers"] if not ledger["closed"]), None)
        self._ids = {} if made is None else {made: opened.ledgers[-1].ledger_id}

    def ledger(self, ledger_id: int) -> int:
        return self._ids.get(ledger_id, ledger_id)

    def position(self, recorded: list[int]) -> Position:
        return Position(self.ledger(recorded[0]), recorded[1])


def check_topic(case: Reopening, opened: mledger.ManagedLedger, ids: Ids) -> None:
    recorded = [(ids.ledger(ledger["ledgerId"]), ledger["entries"] or 0) for ledger in case.state["ledgers"]]
    assert [(ledger.ledger_id, ledger.entries) for ledger in opened.ledgers] == recorded
    assert opened.number_of_entries == case.state["numberOfEntries"]
    assert opened.total_size == case.state["totalSize"]
    assert (opened.state is mledger.TopicState.TERMINATED) == (case.state["state"] == "Terminated")
    kept = case.stores.topic(case.topic)
    assert opened.properties == dict(kept.properties)
    before = {ledger.ledger_id: ledger.properties for ledger in kept.ledgers}
    for ledger in opened.ledgers:
        assert ledger.properties == before.get(ledger.ledger_id, ())
    assert any(before.values()) == ((case.scenario.rsplit("-", 1)[0], case.stage) in LEDGER_PROPERTIES_KEPT)


def check_cursor(case: Reopening, cursor: mledger.Cursor, recorded: dict, ids: Ids) -> None:
    key = (case.scenario.rsplit("-", 1)[0], case.stage)
    batches = {str(batch.position): list(batch.words) for batch in cursor.acks.batch_deletions()}
    assert cursor.mark_delete == cursor.durable_mark_delete == ids.position(recorded["markDeletePosition"])
    assert cursor.read_position == ids.position(recorded["readPosition"])
    assert cursor.cursor_properties == recorded["cursorProperties"]
    if key in RANGES_KEPT:
        assert set(parse_ranges(recorded["individuallyDeleted"])) < set(cursor.holes)
        assert cursor.backlog < recorded["backlogPrecise"]
    else:
        assert cursor.individually_deleted == recorded["individuallyDeleted"]
        assert cursor.backlog == recorded["backlogPrecise"]
    assert cursor.properties == ({"p": 1} if key in PROPERTIES_KEPT else recorded["properties"])
    if key in BATCHES_KEPT:
        assert recorded["batchDeletedIndexes"] == {}
        assert len(batches) == 1
    else:
        assert batches == recorded["batchDeletedIndexes"]


def orphaned_by_the_original(case: Reopening) -> set[int]:
    """Ledgers in the dump that nothing refers to: Java leaves cursor ledgers behind."""
    listed = {ledger.ledger_id for ledger in case.stores.topic(case.topic).ledgers}
    named = {record.cursors_ledger_id for record in case.stores.cursors(case.topic).values()}
    return set(case.stores.ledgers) - listed - named


@pytest.mark.parametrize("case", REOPENINGS, ids=lambda case: case.id)
def test_a_topic_of_java_opens_to_the_recorded_state(world, case):
    bookies = world(WORLDS[case.scenario])

    async def main():
        url, events = bookies.metadata_url, Events()
        then = now_ms(case.stores, case.topic) + 1000
        async with (
            mledger.open_cluster(url, config=config_of(case), now_ms=lambda: then) as cluster,
            await open_store(url) as store,
        ):
            loaded = await load(store, list(bookies), case)
            topic = str(mledger.TopicName.of_managed_ledger(case.topic))
            opened = await cluster.open_topic(topic, events=events)
            await opened.initialized()
            ids = Ids(case, opened)
            check_topic(case, opened, ids)
            for recorded in case.state["cursors"]:
                if recorded["name"] in opened.open_cursors:
                    cursor = opened.open_cursors[recorded["name"]]
                    check_cursor(case, cursor, recorded, ids)
                    assert cursor.backlog == await recount(opened, cursor)
            assert set(opened.open_cursors) == set(case.stores.cursors(case.topic))
            assert len(events.of(CursorRecovered)) == len(opened.open_cursors)
            expected = [each for ledger in opened.ledgers for each in loaded.payloads.get(ledger.ledger_id, [])]
            assert await everything(opened) == expected
            await opened.close()
            await cluster.delete_topic(topic)
            left = await ledgers_naming(url, opened.name)
            assert left <= orphaned_by_the_original(case)
            await unload(store, loaded)

    run(main())
