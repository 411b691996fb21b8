"""What must hold after the last kill, whatever was killed (M5, Q5, R10)."""

import mledger
from metastore.ledgers import LedgerStoreReader
from metastore.records import NO_CURSOR_LEDGER
from tests.faults.books import Books
from tests.faults.owner import CLIENT, CONFIG, CUMULATIVE, HOLES, TOPIC
from tests.faults.replicas import copies


async def check_everything(books: Books, url: str) -> None:
    """Open the topic and compare it with the books: entries, every replica by itself, cursors, no orphan."""
    async with mledger.open_cluster(url, config=CONFIG, client=CLIENT) as cluster:
        topic = await cluster.open_topic(TOPIC)
        await topic.initialized()
        entries = await topic.read(mledger.Position(0, -1), 10_000_000)
        books.check_entries([(entry.position, entry.payload) for entry in entries])
        ledgers = [ledger.ledger_id for ledger in topic.ledgers]
        cursors = {(await topic.open_cursor(name)).name for name in (CUMULATIVE, HOLES)}
        await topic.close()
        assert cursors == set(topic.cursors)
        await _check_no_orphans(cluster, ledgers)
        replicas = await copies(cluster.metadata, ledgers)
    for entry in entries:
        held = replicas[entry.position]
        assert len(held) >= CONFIG.ack_quorum_size, f"{entry.position} has {len(held)} copies"
        assert set(held) == {entry.payload}


async def _check_no_orphans(cluster: mledger.Cluster, data_ledgers: list[int]) -> None:
    """BookKeeper has the topic's ledgers and the cursors', and no others (R10)."""
    cursors = await cluster.inspector.cursors(TOPIC)
    owned = {*data_ledgers, *(cursor.record.cursors_ledger_id for cursor in cursors)} - {NO_CURSOR_LEDGER}
    listed = {ledger async for page in LedgerStoreReader(cluster.metadata).list() for ledger in page}
    assert listed == owned
