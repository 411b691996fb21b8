"""Certificates that are renewed while a server runs, and handshakes that clients do not go on with."""

import asyncio
import contextlib
import ssl

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.network import tls_listener
from mledger.metastore.runtime.network.listening_port import bind_listener
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates, TlsListener
from tests.support.aio import run


def test_a_renewal_that_failed_is_tried_again_although_the_files_stay(tmp_path):
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("first")
    allowed = True

    def build() -> ssl.SSLContext:
        if not allowed:
            raise MledgerError(f"{certificate} cannot be read: its mode")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def main():
        nonlocal allowed
        certificates = RenewedCertificates(build, [str(certificate)], every_s=0)
        first = certificates.current()
        certificate.write_text("second")
        allowed = False
        assert certificates.current() is first
        allowed = True
        second = certificates.current()
        assert second is not first
        assert certificates.current() is second

    run(main())


def test_a_handshake_beyond_the_most_takes_the_place_of_the_oldest(monkeypatch):
    monkeypatch.setattr(tls_listener, "MOST_HANDSHAKES", 2)

    async def main():
        listener = bind_listener("127.0.0.1", 0)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server = TlsListener(listener, asyncio.Protocol, RenewedCertificates(lambda: context, [], every_s=0))
        clients = [await asyncio.open_connection(*listener.getsockname()) for _ in range(3)]
        with contextlib.suppress(ConnectionError):
            assert await clients[0][0].read() == b""
        for reader, writer in clients[1:]:
            assert not reader.at_eof()
            writer.close()
        server.close()
        listener.close()

    run(main())


def test_a_connection_that_takes_one_of_the_last_files_is_closed(monkeypatch):
    monkeypatch.setattr(tls_listener, "takes_last_files", lambda _: True)

    async def main():
        listener = bind_listener("127.0.0.1", 0)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server = TlsListener(listener, asyncio.Protocol, RenewedCertificates(lambda: context, [], every_s=0))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()
        listener.close()

    run(main())
