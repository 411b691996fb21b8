"""Connections become encrypted when their client asks for it, as BookKeeper's do."""

import asyncio
import contextlib
import shutil
import socket
import ssl

import pytest

from mledger.bookie import wire
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving.connection import Connection
from mledger.bookie.server.serving.tls import TlsSettings, certificates
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.version3 import add, request, response
from tests.support.certificates import certify, certify_by

PROVIDER = "tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory"
START = request(pb.START_TLS, 7)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The bookie's certificate, which clients also use."""
    return certify(tmp_path_factory.mktemp("certificates"))


def settings(certified, *more):
    """The options that make a bookie encrypt."""
    given = (
        PROVIDER,
        "tlsKeyStoreType=PEM",
        f"tlsKeyStore={certified.key}",
        f"tlsCertificatePath={certified.certificate}",
        *more,
    )
    return [argument for setting in given for argument in ("--set", setting)]


@pytest.fixture
def start(bookies, certified):
    """Starts one bookie with encryption."""
    return lambda *more: bookies.start(1, *settings(certified, *more))[0]


def context(certified, *, known=False):
    made = ssl.create_default_context(cafile=str(certified.authority))
    if known:
        made.load_cert_chain(certified.certificate, certified.key)
    return made


@contextlib.asynccontextmanager
async def encrypted(bookie, client_context):
    """A connection after the handshake."""
    async with RawBookieClient(bookie) as client:
        client.send(START)
        agreed = response(await client.frame())
        assert (agreed.status, agreed.header.txnId, agreed.HasField("startTLSResponse")) == (pb.EOK, 7, True)
        await client.writer.start_tls(client_context, server_hostname="localhost")
        yield client


async def add_and_read(client):
    """Read back what was added, with requests large enough to need more than one buffer of the connection."""
    payloads = [bytes([number]) * 100_000 for number in range(20)]
    client.send(b"".join(add(1, number, payload, transaction=number) for number, payload in enumerate(payloads)))
    for _ in payloads:
        assert response(await client.frame()).status == pb.EOK
    for number, payload in enumerate(payloads):
        client.send(request(pb.READ_ENTRY, ledgerId=1, entryId=number))
        assert response(await client.frame()).readResponse.body == entry(1, number, payload)


def test_a_connection_becomes_encrypted(start, certified):
    bookie = start()

    async def main():
        async with encrypted(bookie, context(certified)) as client:
            await add_and_read(client)
            client.send(START)
            again = response(await client.frame()).status
            client.send(wire.encode_read(1, 0))
            return again, (await client.response()).body[:16]

    assert run(main()) == (pb.EBADREQ, entry(1, 0, b"")[:16])


def test_a_client_without_a_required_certificate_is_refused(start, certified):
    bookie = start("tlsClientAuthentication=true", f"tlsTrustStore={certified.authority}", "tlsTrustStoreType=PEM")

    async def main():
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            async with encrypted(bookie, context(certified)) as client:
                await add_and_read(client)
        async with encrypted(bookie, context(certified, known=True)) as client:
            await add_and_read(client)

    run(main())
    assert "event=tls_handshake_failed" in bookie.log()


def test_bytes_after_the_request_are_not_taken_for_encrypted_ones(start):
    bookie = start()

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(START + add(1, 0))
            return await client.closed()

    assert run(main()) == b""
    assert "bytes behind the request to start TLS" in bookie.log()


def test_other_connections_may_stay_unencrypted(start):
    bookie = start()

    async def main():
        async with RawBookieClient(bookie) as client:
            await add_and_read(client)

    run(main())


def test_a_certificate_that_has_expired_is_refused(start, certified, tmp_path):
    bookie = start("tlsClientAuthentication=true", f"tlsTrustStore={certified.authority}", "tlsTrustStoreType=PEM")
    expired = certify_by(certified, tmp_path / "expired", "client", days=-1)

    async def main():
        shown = context(certified)
        shown.load_cert_chain(expired.certificate, expired.key)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            async with encrypted(bookie, shown) as client:
                await add_and_read(client)
        async with encrypted(bookie, context(certified, known=True)) as client:
            await add_and_read(client)

    run(main())
    assert "certificate has expired" in bookie.log()


def test_new_connections_get_a_certificate_that_was_exchanged(bookies, certified, tmp_path):
    mine = certify(tmp_path / "mine")
    bookie = bookies.start(1, *settings(mine, "tlsCertFilesRefreshDurationSeconds=1"))[0]

    async def renewed():
        while True:
            with contextlib.suppress(ssl.SSLCertVerificationError):
                async with encrypted(bookie, context(certified)) as client:
                    await add_and_read(client)
                    return

    async def main():
        async with encrypted(bookie, context(mine)) as before:
            await add_and_read(before)
            shutil.copy(certified.key, mine.key)
            shutil.copy(certified.certificate, mine.certificate)
            await renewed()
            await add_and_read(before)

    run(main())
    assert "event=certificates_renewed" in bookie.log()


def test_an_invalid_handshake_ends_only_its_connection(start, certified):
    bookie = start()

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(START)
            await client.frame()
            client.send(b"no handshake at all" * 10)
            await client.closed()
        async with encrypted(bookie, context(certified)) as client:
            await add_and_read(client)

    run(main())


def test_a_missing_key_is_an_error_at_the_start(bookies, tmp_path, certified):
    from tests.support.bookies.processes import BookieFailed

    arguments = settings(certified)
    arguments[5] = f"tlsKeyStore={tmp_path / 'missing.pem'}"
    with pytest.raises(BookieFailed, match=r"missing\.pem: \[Errno 2\]"):
        bookies.start(1, *arguments)


def test_a_client_that_is_gone_before_the_answer_leaves_no_handshake(tmp_path, certified):
    """Its handshake would never end: the connection was lost before there was one to tell."""

    async def main():
        tls = certificates(TlsSettings(str(certified.certificate), str(certified.key)))
        async with serving(tmp_path / "bookie") as local:
            bookie, lost = local.bookie, asyncio.Event()

            class Told(Connection):
                def connection_lost(self, exc):
                    super().connection_lost(exc)
                    lost.set()

            before = asyncio.all_tasks()
            ours, theirs = socket.socketpair()
            ours.sendall(START)
            ours.close()  # the answer cannot be written
            made = Told(bookie.turns, bookie._service, tls=tls)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: made, theirs)
            await lost.wait()
            await asyncio.sleep(0)
            return asyncio.all_tasks() - before

    assert run(main()) == set()
