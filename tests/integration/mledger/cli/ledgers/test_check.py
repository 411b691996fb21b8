"""`ledgers check` on real bookies reports damaged, missing, unreachable, orphaned and dangling, and changes nothing."""

import asyncio
import random
from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieFailed, BookieProcesses, initialize_cluster
from tests.support.cli import CommandResult, mledger, ok
from tests.support.metadata.tree import tree
from tests.support.topics import CONFIG, KEEP, fill, managed_ledger_of

TOPIC = "persistent://public/default/checked"


@pytest.fixture(scope="module")
def cluster(shared_zookeeper, _new_chroot, tmp_path_factory):
    """Three bookies. A test that stops one starts it again."""
    url = shared_zookeeper.url + _new_chroot()
    initialize_cluster(url)
    processes = BookieProcesses(url, tmp_path_factory.mktemp("cluster"))
    try:
        processes.start(3)
        yield processes
    finally:
        processes.close()


def check(cluster, *arguments) -> CommandResult:
    """The command's result. Asserts that every node keeps its version."""
    before = tree(cluster.metadata_url)
    done = mledger("ledgers", "check", *arguments, "--output", "json", url=cluster.metadata_url)
    assert tree(cluster.metadata_url) == before
    return done


def write_topic(cluster, name: str, config=KEEP, *, close: bool = True) -> tuple[list[int], int]:
    """A topic of 25 entries in three ledgers with a cursor in a cursor ledger; the ids of all."""

    async def main():
        async with public.open_cluster(cluster.metadata_url, config=config) as opened:
            topic = await opened.create_topic(name)
            positions = await fill(topic, 25)
            cursor = await topic.open_cursor("one")
            await cursor.acknowledge(positions[1::2])
            ledgers, cursor_ledger = list(topic.ledger_list.ids), cursor.cursor_ledger
            if not close:
                await topic.abandon()
            return ledgers, cursor_ledger

    return run(main())


async def with_ledgers(cluster, act):
    async with await open_store(cluster.metadata_url) as store:
        return await act(store, LedgerStore(store))


def make_ledger(cluster, custom) -> int:
    """The metadata of a ledger that nothing names."""

    async def act(store, ledgers):
        ledger_id = await ledgers.next_id()
        bookies = tuple(bookie.bookie_id for bookie in cluster)
        metadata = LedgerMetadata(
            3,
            3,
            2,
            (Segment(0, bookies),),
            state=LedgerState.CLOSED,
            digest_type=DigestType.CRC32C,
            custom_metadata=custom,
        )
        await ledgers.create(ledger_id, metadata)
        return ledger_id

    return run(with_ledgers(cluster, act))


def delete_ledger(cluster, ledger_id: int) -> None:
    async def act(store, ledgers):
        await ledgers.delete(ledger_id)

    run(with_ledgers(cluster, act))


def test_a_sound_cluster_has_no_findings(cluster):
    ledgers, _ = write_topic(cluster, TOPIC)
    done = check(cluster, "--topic", TOPIC)
    assert done.code == 0, done
    assert done.json["checked"] == len(ledgers)
    assert done.json["entries"] == 25
    assert done.json["whole_copies"] == 75
    assert not done.json["found"]
    every = check(cluster, "--all", "--min-age", 0)
    assert (every.code, every.json["unnamed"], every.json["dangling"]) == (0, [], [])
    plain = mledger("ledgers", "check", "--topic", TOPIC, url=cluster.metadata_url)
    assert "nothing is wrong" in plain.out


def test_an_open_ledger_is_read_to_its_last_add_confirmed_and_marked_as_open(cluster):
    name = f"{TOPIC}-open"
    ledgers, cursor_ledger = write_topic(cluster, name, close=False)
    done = check(cluster, "--topic", name)
    assert done.code == 0, done
    assert [each["ledger_id"] for each in done.json["open_ledgers"]] == sorted([ledgers[-1], cursor_ledger])
    assert {each["state"] for each in done.json["open_ledgers"]} == {"OPEN"}


def write_noise(cluster, name: str) -> tuple[int, bytes]:
    """A topic of five entries whose bytes are nowhere else; its ledger, and some bytes of entry 3."""
    noise = [random.Random(f"{name} {number}").randbytes(2000) for number in range(5)]

    async def main():
        async with public.open_cluster(cluster.metadata_url, config=KEEP) as opened:
            topic = await opened.create_topic(name)
            return (await topic.append(noise))[0].ledger_id

    return run(main()), noise[3][900:932]


def test_bytes_flipped_in_a_bookies_journal_are_found(cluster):
    name = f"{TOPIC}-flipped"
    ledger, some = write_noise(cluster, name)
    bookie = cluster[1]
    cluster.stop(1)
    flip(bookie.directory / "journal", some)
    cluster.restart(1)
    done = check(cluster, ledger)
    assert done.code == 1, done
    (bad,) = done.json["bad_copies"]
    assert (bad["ledger_id"], bad["bookie_id"], bad["of"]) == (ledger, bookie.bookie_id, managed_ledger_of(name))
    assert (bad["first"], bad["last"], bad["copies"]) == (3, 3, 1)
    assert bad["reason"] == "it fails its digest"
    assert done.json["lost"] == []
    plain = mledger("ledgers", "check", ledger, url=cluster.metadata_url)
    assert "it fails its digest" in plain.out


def test_a_bookie_that_refuses_its_damaged_journal_is_away(cluster):
    ledger, some = write_noise(cluster, f"{TOPIC}-journal")
    write_noise(cluster, f"{TOPIC}-behind-it")  # the record is not the last, which may be torn
    bookie = cluster[1]
    cluster.kill(1)
    flip(bookie.directory / "journal", some)
    try:
        with pytest.raises(BookieFailed):
            cluster.restart(1)
        done = check(cluster, ledger)
    finally:
        flip(bookie.directory / "journal", bytes([some[0] ^ 1]) + some[1:])
        cluster.restart(1)
    assert done.code == 5, done
    assert {each["bookie_id"] for each in done.json["away"]} == {bookie.bookie_id}
    assert check(cluster, ledger).code == 0


def test_a_replica_that_lacks_entries_is_found(cluster):
    name = f"{TOPIC}-lacking"
    ledgers, _ = write_topic(cluster, name)
    other = cluster.add().start()
    try:

        async def act(store, records):
            metadata, version = await records.read(ledgers[0])
            (segment,) = metadata.segments
            moved = Segment(0, (other.bookie_id, *segment.bookies[1:]))
            await records.put(ledgers[0], structs.replace(metadata, segments=(moved,)), version)

        run(with_ledgers(cluster, act))
        done = check(cluster, "--topic", name)
        assert done.code == 1
        (bad,) = done.json["bad_copies"]
        assert (bad["bookie_id"], bad["first"], bad["last"], bad["copies"]) == (other.bookie_id, 0, 9, 10)
        assert bad["reason"] == "it is not there"
    finally:
        other.stop()
        cluster.bookies.remove(other)


def test_an_unreachable_bookie_is_distinguished(cluster):
    name = f"{TOPIC}-away"
    ledgers, _ = write_topic(cluster, name)
    cluster.kill(2)
    try:
        done = check(cluster, "--topic", name)
    finally:
        cluster.restart(2)
    assert done.code == 5, done
    assert done.json["bad_copies"] == []
    assert {each["bookie_id"] for each in done.json["away"]} == {cluster[2].bookie_id}
    assert sum(each["copies"] for each in done.json["away"]) == 25
    assert done.json["whole_copies"] == 50
    assert len(ledgers) == done.json["checked"]


def test_an_orphan_is_distinguished_from_ledgers_of_others(cluster):
    custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", b"public/default/persistent/gone"))
    orphan, other = make_ledger(cluster, custom), make_ledger(cluster, (("component", b"compacted-ledger"),))
    pending = make_ledger(cluster, custom)

    async def act(store, _):
        await store.create(f"/mledger/pending/{pending}", b"public/default/persistent/gone", parents=True)

    run(with_ledgers(cluster, act))
    done = check(cluster, "--all", "--min-age", 0, "--references-only")
    assert done.code == 1
    assert [(each["ledger_id"], each["state"]) for each in done.json["unnamed"]] == [(orphan, "orphan")]
    assert done.json["other_ledgers"] == [{"ledger_id": other, "component": "compacted-ledger"}]
    young = check(cluster, "--all", "--references-only")
    assert (young.code, [each["state"] for each in young.json["unnamed"]]) == (0, ["young"])
    for ledger_id in (orphan, other, pending):
        delete_ledger(cluster, ledger_id)


def test_an_unreadable_record_prevents_the_search_for_orphans(cluster):
    name = "public/default/persistent/unreadable"
    custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", name.encode()))
    ledger_id = make_ledger(cluster, custom)

    async def act(store, _):
        await store.multi([Create(managed_ledger_path(name), b"\xff\xff")])

    run(with_ledgers(cluster, act))
    done = check(cluster, "--all", "--min-age", 0, "--references-only")
    assert done.code == 1
    assert [(each["ledger_id"], each["state"]) for each in done.json["unnamed"]] == [(ledger_id, "undecided")]
    assert [each["path"] for each in done.json["unreadable"]] == [managed_ledger_path(name)]
    delete_ledger(cluster, ledger_id)

    async def remove(store, _):
        await store.delete(managed_ledger_path(name))

    run(with_ledgers(cluster, remove))


def test_references_to_missing_ledgers_dangle(cluster):
    name = f"{TOPIC}-dangling"
    ledgers, cursor_ledger = write_topic(
        cluster, name, replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=0)
    )
    delete_ledger(cluster, ledgers[1])
    delete_ledger(cluster, cursor_ledger)
    path = managed_ledger_path(managed_ledger_of(name))
    expected = [(ledgers[1], "data ledger", path), (cursor_ledger, "cursor ledger", f"{path}/one")]
    for arguments in (("--topic", name), ("--all", "--references-only")):
        done = check(cluster, *arguments)
        assert done.code == 1
        assert [(each["ledger_id"], each["named_as"], each["by"]) for each in done.json["dangling"]] == expected


def test_the_compacted_topic_is_in_the_ledger_of_the_last_compaction(cluster):
    """After a second compaction the cursor's record names the ledger before, which is gone."""
    name = f"{TOPIC}-compacted"
    custom = (("component", b"compacted-ledger"), ("pulsar/compactedTopic", name.encode()))
    before, now = make_ledger(cluster, custom), make_ledger(cluster, custom)

    async def main():
        async with public.open_cluster(cluster.metadata_url, config=KEEP) as opened:
            topic = await opened.create_topic(name)
            first, second = await fill(topic, 2)
            cursor = await topic.open_cursor("__compaction")
            await cursor.acknowledge_cumulative(first, {"CompactedTopicLedger": before})
            await topic.close()
            topic = await opened.open_topic(name)
            cursor = await topic.open_cursor("__compaction")
            await cursor.acknowledge_cumulative(second, {"CompactedTopicLedger": before})
            await cursor.acknowledge_cumulative(second, {"CompactedTopicLedger": now})
            await topic.abandon()

    run(main())
    delete_ledger(cluster, before)
    for arguments in (("--topic", name), ("--all", "--references-only")):
        done = check(cluster, *arguments)
        assert [each for each in done.json["dangling"] if name.rpartition("/")[2] in each["by"]] == []
    assert check(cluster, "--topic", name).code == 0
    delete_ledger(cluster, now)
    for arguments in (("--topic", name), ("--all", "--references-only")):
        done = check(cluster, *arguments)
        assert (now, "compacted topic") in [(each["ledger_id"], each["named_as"]) for each in done.json["dangling"]]
    ok("topics", "delete", name, "--yes", url=cluster.metadata_url)


def test_a_partitioned_topic_is_checked_with_all_its_partitions(cluster):
    name = f"{TOPIC}-partitioned"
    ok("topics", "create", name, "--partitions", 2, url=cluster.metadata_url)
    for index, count in enumerate((3, 4)):
        quorums = ("--ensemble-size", 3, "--write-quorum", 3, "--ack-quorum", 2)
        partition = f"{name}-partition-{index}"
        ok("cursors", "create", partition, "one", *quorums, url=cluster.metadata_url)
        ok("topics", "produce", partition, "--count", count, *quorums, url=cluster.metadata_url)
    done = check(cluster, "--topic", name)
    assert (done.code, done.json["entries"], done.json["whole_copies"]) == (0, 7, 21)
    planned = mledger("topics", "repair", name, "--dry-run", "--output", "json", url=cluster.metadata_url)
    assert (planned.json["topics"], planned.json["mends"]) == (2, [])


def test_a_missing_ledger_is_an_error_and_so_is_nothing_to_check(cluster):
    assert check(cluster, 999_999).code == 3
    assert check(cluster, "--topic", "persistent://public/default/none").code == 3
    assert check(cluster).code == 2
    assert check(cluster, 1, "--all").code == 2


def test_an_owner_that_writes_meanwhile_causes_no_findings(cluster):
    name = f"{TOPIC}-live"

    async def main():
        async with public.open_cluster(cluster.metadata_url, config=CONFIG) as opened:
            topic = await opened.create_topic(name)
            cursor = await topic.open_cursor("one")
            stop = asyncio.Event()

            async def write_on():
                while not stop.is_set():
                    positions = await fill(topic, 7)
                    await cursor.acknowledge_cumulative(positions[-1])
                    await topic.trim()
                    await asyncio.sleep(0.01)

            writing = asyncio.create_task(write_on())
            command = ("ledgers", "check", "--topic", name, "--output", "json")
            every = ("ledgers", "check", "--all", "--min-age", "0", "--references-only", "--output", "json")
            results = [
                await asyncio.to_thread(mledger, *arguments, url=cluster.metadata_url)
                for arguments in (command, every, command, every)
            ]
            stop.set()
            await writing
            return results

    for done in run(main()):
        assert done.code in (0, 1), done
        for finding in ("bad_copies", "lost", "unnamed"):
            assert done.json[finding] == [], done
        assert not [each for each in done.json["dangling"] if "checked-live" in each["by"]]


def flip(directory, needle: bytes) -> None:
    """Flip a bit of every occurrence of `needle` in the files below `directory`. There must be at least one."""
    found = 0
    for path in directory.rglob("*"):
        if path.is_file() and needle in (data := path.read_bytes()):
            path.write_bytes(data.replace(needle, bytes([needle[0] ^ 1]) + needle[1:]))
            found += 1
    assert found
