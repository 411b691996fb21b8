"""kill -9 of the RocksDB metadata server under load, half of the time with the owner (M7, R10), without Java."""

import random

import pytest

from tests.faults.aftermath import check_everything
from tests.faults.owner import UNDER_WAY
from tests.faults.rounds import Rounds
from tests.support.aio import run
from tests.support.bookies.processes import SMALL, BookieProcesses, initialize_cluster
from tests.support.metadata.rocksdb import MetadataProcess

ROUNDS = 5  # of two or three kills


@pytest.fixture
def bookies_on_rocksdb(metadata_process, tmp_path):
    """Four bookies that survive their metadata server's death."""
    initialize_cluster(metadata_process.url)
    processes = BookieProcesses(metadata_process.url, tmp_path / "bookies", SMALL)
    processes.start(4)
    yield processes
    processes.close()


def kill_under_load(rounds: Rounds, metadata: MetadataProcess, rng: random.Random, with_owner: bool) -> None:
    """An owner that survives kills of the metadata server and then dies too, sometimes while the server is down."""
    owner = rounds.owner()
    try:
        for _ in range(2):
            target = rounds.history.owner.acked_entries + rng.randrange(500, 6000)
            owner.until(lambda seen, target=target: seen.acked_entries >= target)
            metadata.kill()
            metadata.start()
        target = rounds.history.owner.acked_entries + UNDER_WAY
        owner.until(lambda seen: seen.acked_entries >= target)
        if with_owner:
            metadata.kill()
            owner.kill()
            metadata.start()
        else:
            owner.kill_under_way()
    finally:
        owner.close()


@pytest.mark.timeout(1800)
def test_nothing_is_lost_repeated_or_orphaned_when_the_metadata_server_dies(
    metadata_process, bookies_on_rocksdb, tmp_path
):
    rounds = Rounds(metadata_process.url, bookies_on_rocksdb, tmp_path)
    rng = random.Random(7)
    for number in range(ROUNDS):
        kill_under_load(rounds, metadata_process, rng, with_owner=number % 2 == 1)
    assert all(bookie.running for bookie in bookies_on_rocksdb)
    run(check_everything(rounds.history, rounds.url))
