"""The start of an encrypted connection to a bookie: START_TLS of protocol 3, the handshake, and an auth message.

Bookies take version 3 until the first version 2 frame, encrypted or not. The auth message is there for its answer: in
TLS 1.3 a client learns only then whether its certificate was accepted, and a bookie that has not authorized it would
answer every request as if a ledger's password were wrong.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar, cast

from google.protobuf.message import DecodeError

from mledger.bookie import wire
from mledger.bookie.errors import EncryptionRefused
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb

P = TypeVar("P", bound=asyncio.Protocol)

_LARGEST_ANSWER = 64 << 10
_NO_PLUGIN = "AuthDisabledPlugin"


async def connect_encrypted(make: Callable[[], P], host: str, port: int, context: ssl.SSLContext) -> P:
    """Connect what `make` returns, once the connection is encrypted and authorized. OSError; EncryptionRefused."""
    plain, handshake = await asyncio.get_running_loop().create_connection(_Handshake, host, port)
    transport: asyncio.Transport = plain
    try:
        await _agree(plain, handshake)
        transport = await _encrypt(plain, handshake, context, host)
        await _authorized(transport, handshake)
        protocol = make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
    except BaseException:
        transport.abort()
        raise
    return protocol


async def _agree(transport: asyncio.Transport, handshake: "_Handshake") -> None:
    request = pb.Request(header=_header(pb.START_TLS, 1), startTLSRequest=pb.StartTLSRequest())
    try:
        answer = await handshake.ask(transport, request)
    except ConnectionError as error:
        raise EncryptionRefused(f"it ended the connection when asked for TLS ({error}); see its log") from None
    if answer.status != pb.EOK:
        status = pb.StatusCode.Name(answer.status) if answer.status in pb.StatusCode.values() else answer.status
        raise EncryptionRefused(
            f"it does not encrypt connections (START_TLS: {status}); set tlsProviderFactoryClass there, or "
            "bookkeeperTLSClientAuthentication=false here"
        )
    handshake.check_all_taken()


async def _encrypt(
    transport: asyncio.Transport, handshake: "_Handshake", context: ssl.SSLContext, host: str
) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    try:
        encrypted = await loop.start_tls(transport, handshake, context, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise EncryptionRefused(
            f"its certificate is not accepted: {error.verify_message}; bookkeeperTLSTrustCertsFilePath names the "
            "authorities that are trusted"
        ) from None
    except OSError as error:  # ssl.SSLError is one
        raise EncryptionRefused(f"no TLS with it: {error}; see its log") from None
    if encrypted is None:
        raise EncryptionRefused("it ended the connection in the handshake of TLS; see its log")
    return encrypted


async def _authorized(transport: asyncio.Transport, handshake: "_Handshake") -> None:
    message = pb.AuthMessage(authPluginName=_NO_PLUGIN, payload=b"")
    try:
        answer = await handshake.ask(transport, pb.Request(header=_header(pb.AUTH, 2), authRequest=message))
    except ConnectionError as error:
        raise EncryptionRefused(
            f"it ended the connection after the handshake of TLS ({error}): it may not accept this client's "
            "certificate (bookkeeperTLSCertificateFilePath); see its log"
        ) from None
    if answer.status != pb.EOK:  # Java's bookies tell it before they answer this message, which they refuse too
        raise EncryptionRefused(
            "it does not authorize this client: the certificate of bookkeeperTLSCertificateFilePath needs one of the "
            "bookie's authorizedRoles; see its log"
        )
    handshake.check_all_taken()


def _header(operation: "pb.OperationType.ValueType", transaction: int) -> pb.BKPacketHeader:
    return pb.BKPacketHeader(version=pb.VERSION_THREE, operation=operation, txnId=transaction)


class _Handshake(asyncio.Protocol):
    """Asks single questions in version 3, before a connection gets its own protocol."""

    def __init__(self) -> None:
        self._received = b""
        self._waiter: asyncio.Future[pb.Response] | None = None
        self._lost: Exception | None = None

    async def ask(self, transport: asyncio.Transport, request: pb.Request) -> pb.Response:
        """The answer to a request. ConnectionError, if no connection stays."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        data = request.SerializeToString()
        transport.write(wire.LENGTH.pack(len(data)) + data)
        if self._lost is not None:
            raise self._lost
        answer = cast("pb.Response", await waiter)
        if self._lost is not None or transport.is_closing():
            raise self._lost or ConnectionError("closed")
        return answer

    def check_all_taken(self) -> None:
        """EncryptionRefused if there are bytes behind the answer, which must not be taken for encrypted ones."""
        if self._received:
            raise EncryptionRefused("it sent bytes that nobody asked for, before or behind the handshake of TLS")

    def data_received(self, data: bytes) -> None:
        """Gather an answer."""
        self._received += data
        if self._waiter is None or self._waiter.done() or len(self._received) < wire.LENGTH.size:
            return
        end = wire.LENGTH.size + wire.LENGTH.unpack_from(self._received)[0]
        try:
            if end > _LARGEST_ANSWER:
                raise DecodeError(f"an answer of {end} bytes")
            if len(self._received) < end:
                return
            answer = pb.Response.FromString(self._received[wire.LENGTH.size : end])
        except DecodeError as error:
            self._waiter.set_exception(ConnectionError(f"it answered otherwise than protocol 3 does: {error}"))
            return
        self._received = self._received[end:]
        self._waiter.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail who waits."""
        self._lost = ConnectionError(str(exc) if exc else "closed")
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._lost)
