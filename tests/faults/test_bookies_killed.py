"""kill -9 of each of four bookies, again and again, under one owner's load (M5, Q2, Q8)."""

import pytest

import mledger
from tests.faults.books import Books
from tests.faults.owner import CLIENT, CONFIG, TOPIC
from tests.faults.recorder import OwnerProcess
from tests.faults.replicas import copies
from tests.support.aio import run

KILLS_OF_EACH = 5
BETWEEN = 700


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_acknowledged_entry_is_lost_when_every_bookie_dies_in_turn(cluster_url, bookies, tmp_path):
    bookies.start(4)
    books = Books()
    owner = OwnerProcess(books, cluster_url, tmp_path / "owner.log")
    try:
        for number in range(4 * KILLS_OF_EACH):
            target = books.owner.acked_entries + BETWEEN
            owner.until(lambda seen, target=target: seen.acked_entries >= target)
            bookies.kill(number % 4)
            target = books.owner.acked_entries + BETWEEN
            owner.until(lambda seen, target=target: seen.acked_entries >= target)
            bookies.restart(number % 4)
        owner.kill_under_way()
    finally:
        owner.close()
    run(_check(books, cluster_url), timeout=60)


async def _check(books: Books, url: str) -> None:
    async with mledger.open_cluster(url, config=CONFIG, client=CLIENT) as cluster:
        topic = await cluster.open_topic(TOPIC)
        await topic.initialized()
        entries = await topic.read(mledger.Position(0, -1), 10_000_000)
        books.check_entries([(entry.position, entry.payload) for entry in entries])
        ledgers = [ledger.ledger_id for ledger in topic.ledgers]
        await topic.close()
        replicas = await copies(cluster.metadata, ledgers)
    for entry in entries:
        held = replicas[entry.position]
        assert len(held) >= CONFIG.ack_quorum_size
        assert set(held) == {entry.payload}
