"""A bookie with roles serves encrypted connections whose certificate names one, and refuses all requests of others."""

import contextlib
import ssl

import pytest

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving.auth import DISABLED_PLUGIN
from tests.support.aio import run
from tests.support.bookies.encryption import arguments, demanding
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.version3 import add, request, response
from tests.support.certificates import certify, certify_by

_MESSAGE = pb.Request(
    header=pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.AUTH, txnId=8),
    authRequest=pb.AuthMessage(authPluginName=DISABLED_PLUGIN, payload=b""),
).SerializeToString()
AUTH = wire.LENGTH.pack(len(_MESSAGE)) + _MESSAGE


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The bookie's certificate."""
    return certify(tmp_path_factory.mktemp("certificates") / "bookie")


@pytest.fixture
def bookie(bookies, certified):
    """A bookie that serves brokers and auditors."""
    return bookies.start(1, *arguments(demanding(certified, "broker,auditor")), "--set=tlsProvider=OpenSSL")[0]


@contextlib.asynccontextmanager
async def encrypted(bookie, certified, shown):
    """A connection that shows a certificate."""
    context = ssl.create_default_context(cafile=str(certified.authority))
    context.load_cert_chain(shown.certificate, shown.key)
    async with RawBookieClient(bookie) as client:
        client.send(request(pb.START_TLS, 7))
        assert response(await client.frame()).status == pb.EOK
        await client.writer.start_tls(context, server_hostname="localhost")
        yield client


async def refused(client):
    """Whether requests of both versions are refused."""
    client.send(AUTH)
    status = response(await client.frame()).status
    client.send(add(1, 0))
    added = response(await client.frame()).status
    client.send(wire.encode_read(1, 0))
    return (status, added, (await client.response()).error) == (pb.EUA, pb.EUA, Code.UNAUTHORIZED)


def test_an_authorized_role_is_served(bookie, certified, tmp_path):
    broker = certify_by(certified, tmp_path / "broker", "client", unit="0:broker,other;1:cluster")

    async def main():
        async with encrypted(bookie, certified, broker) as client:
            client.send(AUTH)
            answer = response(await client.frame())
            assert (answer.status, answer.authResponse.authPluginName) == (pb.EOK, DISABLED_PLUGIN)
            client.send(wire.encode_add(bytes(20), entry(1, 0, b"payload")))
            assert (await client.response()).error == Code.OK
            client.send(wire.encode_read(1, 0))
            assert (await client.response()).body == entry(1, 0, b"payload")

    run(main())


def test_another_role_is_refused(bookie, certified, tmp_path):
    reader = certify_by(certified, tmp_path / "reader", "client", unit="0:reader")

    async def main():
        async with encrypted(bookie, certified, reader) as client:
            return await refused(client)

    assert run(main())
    assert "its role reader is none of authorizedRoles" in bookie.log()


def test_a_plain_connection_is_refused(bookie, certified, tmp_path):
    broker = certify_by(certified, tmp_path / "broker", "client", unit="0:broker")

    async def main():
        async with RawBookieClient(bookie) as client:
            assert await refused(client)
        async with encrypted(bookie, certified, broker) as client:
            client.send(wire.encode_read(1, 0))
            assert (await client.response()).error == Code.NO_LEDGER

    run(main())
    assert bookie.log().count("event=client_refused") == 1


def test_requests_that_arrive_with_the_end_of_the_handshake_wait_for_its_outcome(bookie, certified, tmp_path):
    reader = certify_by(certified, tmp_path / "reader", "client", unit="0:reader")
    many = b"".join(wire.encode_read(1, number) for number in range(20_000))  # more than the first buffer

    async def main():
        async with encrypted(bookie, certified, reader) as client:
            client.send(many)
            return {(await client.response()).error for _ in range(20_000)}

    assert run(main()) == {Code.UNAUTHORIZED}
