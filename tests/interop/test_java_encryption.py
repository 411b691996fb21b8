"""TLS with roles, in both protocols: our client on Java's bookies, and Java's client on ours."""

import pytest
from msgspec.structs import replace

from mledger.bookie.client import ClientConfig
from mledger.bookie.errors import BookieUnavailable, NotEnoughBookies
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.zookeeper.launcher import free_port
from tests.interop.test_java_client import PAYLOADS, java_append, java_create, java_open, java_read
from tests.support.aio import run
from tests.support.bookies.encryption import TLS_FACTORY, arguments, demanding, showing
from tests.support.bookies.processes import SMALL, BookieProcesses
from tests.support.certificates import certify, certify_by
from tests.support.java.driver import OriginalError
from tests.support.ledgers import client, payloads

pytestmark = pytest.mark.interop

PATIENT = ClientConfig(connect_timeout_s=30.0)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The bookies' certificate."""
    return certify(tmp_path_factory.mktemp("certificates") / "bookie")


@pytest.fixture(scope="module")
def broker(certified, tmp_path_factory):
    """A certificate with the role that the bookies serve."""
    return certify_by(certified, tmp_path_factory.mktemp("broker"), "broker", unit="0:broker;1:pulsar")


@pytest.fixture(scope="module")
def stranger(certified, tmp_path_factory):
    """A certificate with another role."""
    return certify_by(certified, tmp_path_factory.mktemp("stranger"), "stranger", unit="0:stranger")


@pytest.fixture(scope="module")
def our_demanding(new_tree, certified, tmp_path_factory):
    """Three bookies of ours."""
    tree = new_tree()
    processes = BookieProcesses(tree.url, tmp_path_factory.mktemp("ours"), (*SMALL, *arguments(demanding(certified))))
    processes.start(3)
    yield tree
    processes.close()


@pytest.fixture(scope="module")
def java_demanding(new_tree, start_original, certified, tmp_path_factory):
    """Three of Java's bookies."""
    tree, process, directory = new_tree(), start_original(), tmp_path_factory.mktemp("javas")
    settings = demanding(certified) | {"tlsProvider": "JDK"}
    for number in range(3):
        place = {"dir": str(directory / str(number)), "port": free_port()}
        process.call("bookies.start", zookeeper=tree.zookeeper, set=settings, **place)
    return tree


def java_settings(certified):
    """The settings of Java's client that shows a certificate."""
    return {
        "tlsProviderFactoryClass": TLS_FACTORY,
        "tlsProvider": "JDK",
        "tlsClientAuthentication": "true",
        "clientTrustStoreType": "PEM",
        "clientTrustStore": str(certified.authority),
        "clientKeyStoreType": "PEM",
        "clientKeyStore": str(certified.key),
        "tlsCertificatePath": str(certified.certificate),
    }


@pytest.mark.parametrize("version", [2, 3])
def test_java_s_client_is_served_by_our_bookies(start_original, our_demanding, broker, version):
    java = start_original()
    settings = java_settings(broker) | {"useV2WireProtocol": str(version == 2).lower()}
    java.call("ledger.connect", zookeeper=our_demanding.zookeeper, defaults=True, set=settings)
    ledger = java_create(java)
    assert java_append(java, PAYLOADS) == list(range(len(PAYLOADS)))
    assert java_open(java, ledger)["closed"]
    assert java_read(java, len(PAYLOADS) - 1) == PAYLOADS


def test_java_s_client_of_another_role_is_refused_by_our_bookies(start_original, our_demanding, stranger):
    java = start_original()
    java.call("ledger.connect", zookeeper=our_demanding.zookeeper, defaults=True, set=java_settings(stranger))
    java_create(java)
    with pytest.raises(OriginalError) as refused:
        java_append(java, [b"refused"])
    assert "Unauthorized" in str(refused.value)


def test_our_client_is_served_by_java_s_bookies(java_demanding, broker):
    async def main():
        config = replace(PATIENT, tls=showing(broker))
        async with client(java_demanding.url, config) as first, client(java_demanding.url, config) as second:
            writer = await first.create_ledger(3, 3, 2)
            await writer.append(payloads(2000))
            await writer.append([bytes(1 << 20)])
            reader = await second.open_ledger(writer.ledger_id)
            assert (await second.metadata(writer.ledger_id)).state is LedgerState.CLOSED
            checked = await second.check_ledger(writer.ledger_id)
            [described, *_] = await second.bookie_check().look([each.bookie_id for each in await second.bookies()])
            return await reader.read(0, 2000), checked.bad, described

    read, bad, described = run(main())
    assert read == [*payloads(2000), bytes(1 << 20)]
    assert bad == ()
    assert described.info.total_bytes > 0


def test_our_client_of_another_role_is_refused_by_java_s_bookies(java_demanding, stranger):
    async def main():
        async with client(java_demanding.url, replace(PATIENT, tls=showing(stranger))) as bookkeeper:
            with pytest.raises(NotEnoughBookies):
                await bookkeeper.create_ledger(3, 3, 2)
            [bookie, *_] = await bookkeeper.bookies()
            with pytest.raises(BookieUnavailable) as refused:
                await bookkeeper._pool.connection(bookie.bookie_id)
            return str(refused.value)

    assert "it does not authorize this client" in run(main())
