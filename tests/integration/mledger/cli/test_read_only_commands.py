"""Commands that only read leave every node at its version and no ledger fenced, while an owner writes."""

import asyncio

import mledger as public
from mledger.bookie.server.storage.rows.index import Index
from mledger.metastore.url import open_reader
from tests.support.aio import run
from tests.support.cli import mledger, ok
from tests.support.metadata.tree import read_tree

TOPIC = "persistent://public/default/live"
CONFIG = public.ManagedLedgerConfig(ensemble_size=3, write_quorum_size=3, ack_quorum_size=2, throttle_mark_delete=0)


def looking(ledger: int, cursor_ledger: int) -> tuple[tuple[object, ...], ...]:
    return (
        ("topics", "list"),
        ("topics", "describe", TOPIC),
        ("topics", "info-internal", TOPIC),
        ("topics", "stats-internal", TOPIC, "--with-metadata"),
        ("topics", "drop-ledgers", TOPIC, ledger, "--dry-run"),
        ("topics", "read", TOPIC, "--limit", 50),
        ("cursors", "list", TOPIC),
        ("cursors", "describe", TOPIC, "one"),
        ("cursors", "recover", TOPIC),
        ("cursors", "delete", TOPIC, "one", "--dry-run"),
        ("cursors", "recover", TOPIC, "one"),
        ("ledgers", "list"),
        ("ledgers", "describe", ledger),
        ("ledgers", "describe", cursor_ledger),
        ("ledgers", "read", ledger),
        ("ledgers", "read", cursor_ledger),
        ("ledgers", "read", cursor_ledger, "--decode"),
        ("ledgers", "check", ledger, cursor_ledger),
        ("ledgers", "check", "--all", "--min-age", 0),
        ("topics", "repair", TOPIC, "--min-age", 0, "--dry-run"),
        ("bookies", "list"),
        ("bookies", "cluster"),
        ("bookies", "underreplicated"),
        ("bookies", "autorecovery", "--disable", "--dry-run"),
        ("bookies", "cookie", "write", "b:1", "--journal-dir", "/j", "--ledger-dir", "/l", "--dry-run"),
        ("metadata", "tree", "/"),
        ("metadata", "get", "/managed-ledgers/public/default/persistent/live"),
    )


async def write_on(topic: public.ManagedLedger, cursor: public.Cursor, stop: asyncio.Event) -> int:
    """Append and acknowledge until told to stop, and return the number of entries."""
    count = 0
    while not stop.is_set():
        appended = await topic.append([b"entry %d" % number for number in range(count, count + 20)])
        await cursor.acknowledge([public.Position(appended[0].ledger_id, appended[0].last_entry)])
        count += 20
        await asyncio.sleep(0.01)  # leaves the processor to the commands
    return count


def test_live_writes_continue_and_every_version_and_fence_flag_stays(cluster_directory, url) -> None:
    ledgers: list[int] = []

    async def main() -> None:
        async with public.open_cluster(url, config=CONFIG) as cluster, await open_reader(url) as reader:
            topic = await cluster.create_topic(TOPIC)
            cursor = await topic.open_cursor("one")
            first = await topic.add(b"first")
            await topic.add(b"second")
            await cursor.acknowledge([first])
            ledgers.extend([first.ledger_id, cursor.cursor_ledger])
            stop = asyncio.Event()
            writing = asyncio.create_task(write_on(topic, cursor, stop))
            before = await read_tree(reader)
            for arguments in looking(*ledgers):
                done = await asyncio.to_thread(mledger, *arguments, url=url)
                assert done.code == 0, (arguments, done.err)
            assert await read_tree(reader) == before
            assert not writing.done()
            stop.set()
            assert await writing > 0
            await topic.abandon()

    run(main())
    ok("down", "--dir", cluster_directory)
    assert fenced(cluster_directory, ledgers) == dict.fromkeys(ledgers, False)


def fenced(cluster_directory, ledgers: list[int]) -> dict[int, bool]:
    """Whether any bookie has fenced the ledger. Each ledger is on at least one bookie."""
    found: dict[int, bool] = {}
    for directory in cluster_directory.glob("bookie-*/data/store"):
        index = Index(str(directory))
        for ledger in ledgers:
            record = index.ledger(ledger)
            if record is not None:
                found[ledger] = found.get(ledger, False) or record.fenced
        index.close()
    return found
