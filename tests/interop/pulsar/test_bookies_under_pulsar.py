"""Bookies of ours under a real Pulsar broker: kills, a bookie lost for good, all that it writes by protocol 2 and 3."""

import asyncio
import json
import random

import pytest

from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.url import open_reader
from mledger.metastore.zookeeper.launcher import free_port
from tests.interop.conftest import BOOKIES, start_our_bookies
from tests.support.aio import run
from tests.support.bookies.processes import SMALL
from tests.support.cli import mledger
from tests.support.java.pulsar_broker import PulsarProcess
from tests.support.java.pulsar_cluster import pulsar_cluster
from tests.support.java.pulsar_functions import SETTINGS, download, upload, wait_for_worker, worker_arguments
from tests.support.java.pulsar_load import Producing, consume, delivered, produce, subscribe
from tests.support.ports import free_late_port

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PACKAGE = random.Random(1).randbytes(3_000_000)
SMALL_LEDGERS = {"managedLedgerMaxEntriesPerLedger": 50}
MISSED_SOON = (*SMALL, "--session-timeout", "15")
"""For bookies whose end others must notice."""
STANDS_STILL_S = 60
"""AutoRecovery that has not mended everything after so long is started again.

Its worker waits for the deletion of a ledger's lock, and may create the lock anew before its timer has noted that it
deleted the lock. The timer then forgets the new one, which nobody releases: the ledger waits until the session ends.
"""


def start_cluster(class_path, directory, start_bookies):
    """A cluster whose broker runs functions."""
    return pulsar_cluster(
        class_path, directory, start_bookies, SETTINGS | SMALL_LEDGERS, *worker_arguments(directory / "functions")
    )


@pytest.fixture(scope="module")
def ours(broker_class_path, tmp_path_factory):
    """On bookies of ours. Tests may kill them, but must not leave them dead."""
    directory = tmp_path_factory.mktemp("ours")
    start = start_our_bookies(directory / "bookies", BOOKIES, MISSED_SOON)
    with start_cluster(broker_class_path, directory, start) as cluster:
        wait_for_worker(cluster.broker)
        yield cluster


@pytest.fixture(scope="module")
def theirs(broker_class_path, start_original, tmp_path_factory):
    """On as many of Java's bookies."""
    directory = tmp_path_factory.mktemp("theirs")
    process = start_original()

    def start(zookeeper):
        for number in range(BOOKIES):
            place = str(directory / f"bookie-{number}")
            process.call("bookies.start", zookeeper=zookeeper.connect_string, dir=place, port=free_port())

    with start_cluster(broker_class_path, directory, start) as cluster:
        wait_for_worker(cluster.broker)
        yield cluster
        process.kill()  # without its ZooKeeper it would try to connect as often as it can


def test_the_package_of_a_function_is_stored_and_returned(ours):
    """Its writer, DistributedLog, uses protocol 3."""
    upload(ours.broker, "public/default/package", PACKAGE)
    assert download(ours.broker, "public/default/package") == PACKAGE


def test_the_same_load_writes_as_often_to_zookeeper_as_on_java_s_bookies(ours, theirs):
    """Above all: no change of an ensemble without a cause."""

    def load(cluster):
        before = cluster.zookeeper_writes()
        for number in range(6):
            topic = f"public/default/counted-{number}"
            subscribe(cluster, topic)
            produce(cluster, topic, [b"%d" % each for each in range(120)])
            consume(cluster, topic, 120)
            upload(cluster.broker, f"public/default/counted-{number}", PACKAGE)
        return cluster.zookeeper_writes() - before

    on_theirs, on_ours = load(theirs), load(ours)
    assert on_ours <= 1.1 * on_theirs, f"{on_ours} writes on our bookies, {on_theirs} on the originals"


def test_acknowledged_messages_are_delivered_after_kills_of_a_bookie_and_of_the_broker(ours):
    topic = "public/default/killed"
    subscribe(ours, topic)
    with Producing(ours, topic) as load:
        load.wait_for(100)
        ours.bookies.kill(0)
        load.wait_for(200)
        ours.bookies.restart(0)
        ours.kill_broker()
        ours.broker.start()
        load.wait_for(200)
        ours.bookies.kill(1)
        load.wait_for(100)
    ours.bookies.restart(1)
    assert delivered(ours, topic)[: len(load.acknowledged)] == load.acknowledged


class AutoRecovery(PulsarProcess):
    """BookKeeper's AutoRecovery with a configuration in its directory."""

    def start(self) -> None:
        """Start it, again if it runs."""
        self.kill()
        configuration = self.directory / "bookkeeper.conf"
        self.launch("org.apache.bookkeeper.replication.AutoRecoveryMain", "--conf", configuration)


@pytest.fixture
def auto_recovery(broker_class_path, ours, tmp_path):
    """BookKeeper's AutoRecovery with its defaults, which uses protocol 3; it only rests less between its tries."""
    process = AutoRecovery(broker_class_path, tmp_path, "auto-recovery")
    settings = {
        "metadataServiceUri": f"zk+hierarchical://{ours.zookeeper.connect_string}/ledgers",
        "bookiePort": free_late_port(),
        "advertisedAddress": "127.0.0.1",
        "allowLoopback": "true",
        "rwRereplicateBackoffMs": 250,
        "lockReleaseOfFailedLedgerGracePeriod": 2000,  # else it rests 5 minutes from a ledger that failed some times
        "openLedgerRereplicationGracePeriod": 2000,
    }
    (tmp_path / "bookkeeper.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    process.start()
    yield process
    process.kill()


async def named(reader, bookie_id):
    """Whether a ledger names the bookie in any ensemble."""
    store = LedgerStoreReader(reader)
    async for page in store.list():
        for read in await store.read_many(page):
            if read is not None and any(bookie_id in segment.bookies for segment in read[0].segments):
                return True
    return False


def defects(cluster):
    """What a check of all ledgers finds wrong: pairs of a ledger and an entry, or of a ledger and "unnamed".

    A kill may leave two kinds. Java's writer acknowledges an entry that the killed bookie lacks, and replaces the
    bookie only from the next entry on. A broker that ends between the creation of a ledger and the write of its
    topic's record leaves a ledger that no record names.
    """
    checked = mledger("ledgers", "check", "--all", "--output", "json", url=cluster.url)
    found = json.loads(checked.out)
    kinds = ("lost", "unreachable", "away", "not_checked", "dangling", "unreadable")
    assert all(found[kind] == [] for kind in kinds), checked.out
    copies = {
        (copy["ledger_id"], entry) for copy in found["bad_copies"] for entry in range(copy["first"], copy["last"] + 1)
    }
    return copies | {(each["ledger_id"], "unnamed") for each in found["unnamed"]}


def test_every_ledger_is_at_its_write_quorum_again_after_a_bookie_is_lost_for_good(ours, auto_recovery):
    topic = "public/default/lost"
    sent = [b"%d" % each for each in range(220)]
    subscribe(ours, topic)
    produce(ours, topic, sent)
    upload(ours.broker, "public/default/before", PACKAGE)
    (added,) = ours.bookies.start(1)
    lost, before = ours.bookies[2], defects(ours)
    lost.kill()
    ours.unload(topic)  # the open ledgers are closed

    async def mended():
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with await open_reader(ours.url) as reader:
            while await named(reader, lost.bookie_id):
                assert auto_recovery.running, auto_recovery.log()[-4000:]
                if loop.time() - started > STANDS_STILL_S:
                    auto_recovery.start()
                    started = loop.time()
                await asyncio.sleep(0.5)  # asked of the tree, not waited for: the original has no other way to say so

    try:
        run(mended())
    except TimeoutError:
        pytest.fail(f"ledgers still name {lost.bookie_id}: {auto_recovery.log()[-20_000:]}")
    assert defects(ours) <= before
    assert delivered(ours, topic) == sent
    assert download(ours.broker, "public/default/before") == PACKAGE
    assert added.running
