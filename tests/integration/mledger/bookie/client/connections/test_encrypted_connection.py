"""Clients with TLS do on bookies what they do without, and say why a connection cannot be had."""

import asyncio
import contextlib
import shutil

import pytest
from msgspec.structs import replace

from mledger.bookie.client.connections.bookie_info import ask_info
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.bookie.errors import BookieUnavailable, LedgerFenced, NotEnoughBookies, Unauthorized
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving import version3_messages
from mledger.metastore.records.ledger_metadata import LedgerState
from tests.support.aio import run
from tests.support.bookies.encryption import arguments, demanding, encrypting, showing
from tests.support.certificates import certify, certify_by
from tests.support.ledgers import QUICK, client, payloads

AGREED = version3_messages.tls_agreed(
    pb.Request(header=pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.START_TLS, txnId=1))
)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The bookies' certificate."""
    return certify(tmp_path_factory.mktemp("certificates") / "bookie")


@pytest.fixture(scope="module")
def broker(certified, tmp_path_factory):
    """A certificate of a broker."""
    return certify_by(certified, tmp_path_factory.mktemp("broker"), "broker", unit="0:broker")


@pytest.fixture
def three(bookies, certified):
    """Three bookies that serve brokers."""
    bookies.start(3, *arguments(demanding(certified)))
    return bookies


def using(tls):
    return replace(QUICK, tls=tls)


async def refusal(url, tls):
    """Why no ledger can be created."""
    async with client(url, using(tls)) as bookkeeper:
        with pytest.raises(NotEnoughBookies):
            await bookkeeper.create_ledger(1, 1, 1)
        [bookie, *_] = await bookkeeper.bookies()
        with pytest.raises(BookieUnavailable) as refused:
            await bookkeeper._pool.connection(bookie.bookie_id)
        return str(refused.value)


def test_ledgers_are_written_read_and_recovered(three, broker):
    entries = [b"", b"x", bytes(1 << 20), *payloads(2000), b"y" * 5_000_000]

    async def main():
        async with (
            client(three.metadata_url, using(showing(broker))) as first,
            client(three.metadata_url, using(showing(broker))) as second,
        ):
            writer = await first.create_ledger(3, 3, 2)
            for start in range(0, len(entries), 500):
                await writer.append(entries[start : start + 500])
            peeked = await second.peek(writer.ledger_id)
            reader = await second.open_ledger(writer.ledger_id)
            with pytest.raises(LedgerFenced):
                await writer.append([b"late"])
            assert (await second.metadata(writer.ledger_id)).state is LedgerState.CLOSED
            checked = await second.check_ledger(writer.ledger_id)
            host, port = three[0].address
            info = await ask_info(host, port, connector=BookieConnector(showing(broker)))
            return peeked.last_entry, await reader.read(0, reader.last_entry), checked.bad, info.total_bytes > 0

    last, read, bad, told = run(main())
    assert (last, read == entries, bad, told) == (len(entries) - 1, True, (), True)
    assert not any("event=client_refused" in bookie.log() for bookie in three)


def test_a_killed_bookie_is_connected_to_again(three, broker):
    async def main():
        async with client(three.metadata_url, using(showing(broker))) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(100))
            three.kill(0)
            await writer.append(payloads(100, 100))
            three.restart(0)
            await writer.close()
            reader = await bookkeeper.open_ledger(writer.ledger_id)
            return await reader.read(0, 199)

    assert run(main()) == payloads(200)


def test_a_role_that_is_not_authorized_is_refused(three, certified, tmp_path):
    reader = certify_by(certified, tmp_path / "reader", "reader", unit="0:reader")
    assert "it does not authorize this client" in run(refusal(three.metadata_url, showing(reader)))
    assert any("its role reader is none of authorizedRoles" in bookie.log() for bookie in three)


def test_a_bookie_of_another_authority_is_not_trusted(three, broker, tmp_path):
    other = certify(tmp_path / "other").authority
    said = run(refusal(three.metadata_url, showing(broker, other)))
    assert "its certificate is not accepted: " in said
    assert any("event=tls_handshake_failed" in bookie.log() for bookie in three)


def test_a_certificate_that_has_expired_is_refused(three, certified, tmp_path):
    expired = certify_by(certified, tmp_path / "expired", "broker", unit="0:broker", days=-1)
    said = run(refusal(three.metadata_url, showing(expired)))
    assert "this client's certificate" in said or "no TLS with it" in said
    assert any("certificate has expired" in bookie.log() for bookie in three)


def test_a_bookie_whose_certificate_has_expired_is_refused(bookies, certified, broker, tmp_path):
    expired = certify_by(certified, tmp_path / "expired", "bookie", days=-1)
    bookies.start(1, *arguments(encrypting(expired)))
    assert "certificate has expired" in run(refusal(bookies.metadata_url, showing(broker)))


def test_the_name_in_a_certificate_is_checked_if_asked_for(bookies, certified, broker, tmp_path):
    named = certify_by(certified, tmp_path / "named", "bookie.example")
    bookies.start(1, *arguments(encrypting(named)))

    async def main():
        async with client(bookies.metadata_url, using(showing(broker))) as bookkeeper:
            await (await bookkeeper.create_ledger(1, 1, 1)).close()
        return await refusal(bookies.metadata_url, showing(broker, verify_hostname=True))

    assert "its certificate is not accepted: IP address mismatch" in run(main())


def test_a_bookie_that_does_not_encrypt_is_refused(bookies, broker):
    bookies.start(1)
    assert "set tlsProviderFactoryClass there" in run(refusal(bookies.metadata_url, showing(broker)))


def test_a_plain_client_is_told_that_the_bookie_may_want_it_to_authenticate(three):
    async def main():
        async with client(three.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            with pytest.raises(Unauthorized, match="or the bookie wants clients to authenticate"):
                await writer.append([b"plain"])

    run(main())
    assert any("it is not encrypted" in bookie.log() for bookie in three)


def test_a_certificate_that_was_exchanged_is_shown_from_the_next_connection_on(three, certified, broker, tmp_path):
    mine = certify_by(certified, tmp_path / "mine", "reader", unit="0:reader")

    async def main():
        async with client(three.metadata_url, using(showing(mine, refresh_s=0.001))) as bookkeeper:
            with pytest.raises(NotEnoughBookies):
                await bookkeeper.create_ledger(3, 3, 2)
            shutil.copy(broker.key, mine.key)
            shutil.copy(broker.certificate, mine.certificate)
            while True:
                with contextlib.suppress(NotEnoughBookies):
                    return await (await bookkeeper.create_ledger(3, 3, 2)).close()

    assert run(main()).state is LedgerState.CLOSED


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "it ended the connection when asked for TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answered otherwise than protocol 3 does"),
        (b"\0\0\0\2\xff\xff", "answered otherwise than protocol 3 does"),
        (AGREED + b"more", "it sent bytes that nobody asked for"),
    ],
)
def test_what_is_no_bookie_is_refused(broker, answer, said):
    async def main():
        async def serve(reader, writer):
            await reader.read(4)
            writer.write(answer)
            if answer:
                await reader.read()  # the client ends the connection
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            with pytest.raises(ConnectionError) as refused:
                await BookieConnector(showing(broker)).connect(asyncio.Protocol, *server.sockets[0].getsockname())
            return str(refused.value)

    assert said in run(main())
