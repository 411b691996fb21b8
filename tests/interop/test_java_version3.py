"""BookKeeper's own client and tools with their defaults, hence in protocol 3, on our bookies."""

import threading
import time

import pytest
from kazoo.client import KazooClient

from tests.interop.test_java_client import (
    DIGESTS,
    FENCED,
    LARGEST,
    PAYLOADS,
    java_append,
    java_create,
    java_open,
    java_read,
)
from tests.support.bookies.processes import BookieProcesses
from tests.support.certificates import certify
from tests.support.java.driver import OriginalError

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FOLLOWED_S = 60
CHECKED = "/ledgers/underreplication/checkallledgersctime"
"""When AutoRecovery's auditor last checked all ledgers."""
TLS = "org.apache.bookkeeper.tls.TLSContextFactory"


@pytest.fixture(scope="module")
def java(start_original, our_bookies):
    """Java's client with its defaults on our bookies."""
    original = start_original()
    original.call("ledger.connect", zookeeper=our_bookies.tree.zookeeper, defaults=True)
    return original


def shell(java, our_bookies, *arguments):
    return java.call("bookies.shell", zookeeper=our_bookies.tree.zookeeper, arguments=list(arguments))


@pytest.mark.parametrize("digest", DIGESTS)
def test_java_reads_back_what_it_wrote(java, digest):
    ledger = java_create(java, digest=digest)
    assert java_append(java, PAYLOADS) == list(range(len(PAYLOADS)))
    java.call("ledger.close", handle="writer")
    opened = java_open(java, ledger, digest=digest, recovery=False)
    assert (opened["last_entry"], opened["length"]) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
    assert java_read(java, len(PAYLOADS) - 1) == PAYLOADS


def test_java_writes_the_largest_message(java):
    ledger = java_create(java)
    payloads = [bytes([number]) * (LARGEST - 1024) for number in range(3)]  # its own frame limit is 5 MiB
    java_append(java, payloads)
    java.call("ledger.close", handle="writer")
    java_open(java, ledger)
    assert java_read(java, 2) == payloads


@pytest.mark.parametrize("ensemble", [3, 4])
@pytest.mark.parametrize("digest", DIGESTS)
def test_java_recovers_a_ledger_and_fences_its_writer(java, digest, ensemble):
    ledger = java_create(java, digest=digest, ensemble=ensemble)
    java_append(java, PAYLOADS)
    opened = java_open(java, ledger, digest=digest)
    assert opened["closed"]
    assert (opened["last_entry"], opened["length"]) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
    with pytest.raises(OriginalError) as refused:
        java_append(java, [b"late"])
    assert refused.value.code == FENCED
    assert java_read(java, len(PAYLOADS) - 1) == PAYLOADS


def test_java_keeps_its_ensemble(java):
    ledger = java_create(java)
    for first in range(0, len(PAYLOADS), 50):
        java_append(java, PAYLOADS[first : first + 50])
    java.call("ledger.close", handle="writer")
    assert len(java.call("ledger.metadata", ledger=ledger)["ensembles"]) == 1


def test_java_changes_its_ensemble_once_after_a_bookie_was_killed(java, our_bookies):
    ledger = java_create(java, ack_quorum=3)
    java_append(java, PAYLOADS[:100])
    [[_, ensemble]] = java.call("ledger.metadata", ledger=ledger)["ensembles"]
    our_bookies.stop(ensemble[1])
    try:
        java_append(java, PAYLOADS[100:])
        java.call("ledger.close", handle="writer")
        assert len(java.call("ledger.metadata", ledger=ledger)["ensembles"]) == 2
        java_open(java, ledger)
        assert java_read(java, len(PAYLOADS) - 1) == PAYLOADS
    finally:
        our_bookies.start(ensemble[1])


def test_java_follows_a_writer_by_long_polls(java, start_original, our_bookies):
    ledger = java_create(java)
    java_append(java, PAYLOADS[:1])
    reader = start_original()
    reader.call("ledger.connect", zookeeper=our_bookies.tree.zookeeper, defaults=True)
    java_open(reader, ledger, recovery=False)
    polled = []

    def poll():
        wait_ms = FOLLOWED_S * 1000
        polled.extend(reader.call("ledger.poll", handle="reader", entry=entry, wait_ms=wait_ms) for entry in range(9))

    follower = threading.Thread(target=poll)
    follower.start()
    began = time.monotonic()
    for payload in PAYLOADS[1:10]:
        java_append(java, [payload])
    follower.join(FOLLOWED_S)
    assert time.monotonic() - began < FOLLOWED_S / 2
    assert [answer["confirmed"] >= number for number, answer in enumerate(polled)] == [True] * 9
    entries = [answer["entry"] for answer in polled]
    assert [bytes.fromhex(entry) for entry in entries if entry is not None] == [
        payload for payload, entry in zip(PAYLOADS, entries, strict=False) if entry is not None
    ]


def test_javas_explicit_lac_is_read_by_another_reader(start_original, our_bookies):
    writer = start_original()
    writer.call(
        "ledger.connect",
        zookeeper=our_bookies.tree.zookeeper,
        defaults=True,
        set={"explicitLacInterval": "50"},
    )
    ledger = java_create(writer)
    java_append(writer, PAYLOADS[:5])
    java_open(writer, ledger, recovery=False)
    deadline = time.monotonic() + FOLLOWED_S
    while (found := writer.call("ledger.lac", handle="reader"))["explicit"] < 4:
        assert time.monotonic() < deadline, found
    assert found == {"explicit": 4, "confirmed": 4, "ms": found["ms"]}


def test_java_forces_what_it_wrote_with_deferred_sync(java):
    java_create_deferred = java.call(
        "ledger.create",
        handle="writer",
        ensemble=3,
        write_quorum=3,
        ack_quorum=2,
        digest="CRC32C",
        password="secret",
        deferred_sync=True,
    )
    java_append(java, PAYLOADS[:20])
    assert java.call("ledger.force", handle="writer")["confirmed"] == 19
    java.call("ledger.close", handle="writer")
    java_open(java, java_create_deferred["ledger"])
    assert java_read(java, 19) == PAYLOADS[:20]


def test_javas_check_of_replicas_gets_the_entries_that_each_bookie_has(java):
    ledger = java.call(
        "ledger.create",
        handle="writer",
        ensemble=4,
        write_quorum=2,
        ack_quorum=2,
        digest="CRC32C",
        password="secret",
    )["ledger"]
    java_append(java, PAYLOADS)
    java.call("ledger.close", handle="writer")
    [[_, ensemble]] = java.call("ledger.metadata", ledger=ledger)["ensembles"]
    last = len(PAYLOADS) - 1
    for place, bookie_id in enumerate(ensemble):
        listed = java.call("ledger.list", ledger=ledger, bookie_id=bookie_id, last=last)
        expected = [entry for entry in range(last + 1) if (place - entry) % 4 < 2]
        assert listed["entries"] == expected
        assert listed["total"] == len(expected)


def test_bookkeepers_simpletest_passes(java, our_bookies):
    done = shell(
        java, our_bookies, "simpletest", "-ensemble", "3", "-writeQuorum", "3", "-ackQuorum", "2", "-numEntries", "300"
    )
    assert done["code"] == 0, done["printed"]
    assert "300 entries written to ledger" in done["printed"]


def test_bookkeepers_recover_moves_a_lost_bookies_entries(java, our_bookies):
    ledger = java_create(java)
    java_append(java, PAYLOADS)
    java.call("ledger.close", handle="writer")
    [[_, ensemble]] = java.call("ledger.metadata", ledger=ledger)["ensembles"]
    lost = ensemble[0]
    our_bookies.stop(lost)
    try:
        done = shell(java, our_bookies, "recover", "-force", "-ledger", str(ledger), lost)
        assert done["code"] == 0, done["printed"]
        [[_, ensemble]] = java.call("ledger.metadata", ledger=ledger)["ensembles"]
        assert lost not in ensemble
        java_open(java, ledger)
        assert java_read(java, len(PAYLOADS) - 1) == PAYLOADS
        for bookie_id in ensemble:
            total = java.call("ledger.list", ledger=ledger, bookie_id=bookie_id, last=-1)["total"]
            assert total == len(PAYLOADS)
    finally:
        our_bookies.start(lost)


def test_autorecovery_by_its_defaults_brings_every_ledger_back_to_its_write_quorum(start_original, new_tree, tmp_path):
    tree, java, auto = new_tree(), start_original(), start_original()
    # Bookies of its own: the worker rests 5 s after each ledger that it cannot replicate, and other tests leave some.
    processes = BookieProcesses(tree.url, tmp_path / "bookies")
    try:
        processes.start(4)
        java.call("ledger.connect", zookeeper=tree.zookeeper, defaults=True)
        ledger = java_create(java)
        java_append(java, PAYLOADS)
        java.call("ledger.close", handle="writer")
        [[_, ensemble]] = java.call("ledger.metadata", ledger=ledger)["ensembles"]
        auto.call("bookies.recover", zookeeper=tree.zookeeper)
        wait_until_all_ledgers_were_checked(tree)
        lost = ensemble[2]
        next(bookie for bookie in processes if bookie.bookie_id == lost).stop()
        deadline = time.monotonic() + 3 * FOLLOWED_S
        while lost in (ensemble := java.call("ledger.metadata", ledger=ledger)["ensembles"][0][1]):
            assert time.monotonic() < deadline
            time.sleep(0.2)  # read from the tree, not waited for: Java has no other way to say so
        for bookie_id in ensemble:
            assert java.call("ledger.list", ledger=ledger, bookie_id=bookie_id, last=-1)["total"] == len(PAYLOADS)
    finally:
        auto.kill()
        processes.close()


def wait_until_all_ledgers_were_checked(tree):
    """Wait until the auditor's first check is over. It learns of later losses from its watch."""
    client, checked = KazooClient(tree.zookeeper), threading.Event()
    client.start(timeout=FOLLOWED_S)
    try:
        if not client.exists(CHECKED, watch=lambda _: checked.set()):
            assert checked.wait(FOLLOWED_S)
    finally:
        client.stop()
        client.close()


def test_java_speaks_encrypted(start_original, new_tree, tmp_path):
    tree, certified = new_tree(), certify(tmp_path / "certificates")
    settings = {
        "tlsProviderFactoryClass": TLS,
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": certified.key,
        "tlsCertificatePath": certified.certificate,
    }
    processes = BookieProcesses(tree.url, tmp_path / "bookies")
    try:
        processes.start(3, "--log-level", "debug", *(f"--set={key}={value}" for key, value in settings.items()))
        java = start_original()
        java.call(
            "ledger.connect",
            zookeeper=tree.zookeeper,
            defaults=True,
            set={
                "tlsProviderFactoryClass": TLS,
                "tlsProvider": "JDK",
                "clientTrustStoreType": "PEM",
                "clientTrustStore": str(certified.authority),
            },
        )
        ledger = java_create(java)
        assert java_append(java, PAYLOADS) == list(range(len(PAYLOADS)))
        java.call("ledger.close", handle="writer")
        java_open(java, ledger)
        assert java_read(java, len(PAYLOADS) - 1) == PAYLOADS
        assert all("event=tls_started" in bookie.log() for bookie in processes)
    finally:
        processes.close()
