"""Version 3 messages as a bookie reads and writes them, and the handshake of either version. No I/O."""

from google.protobuf.message import DecodeError
from msgspec import Struct

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving.auth import DISABLED_PLUGIN, AuthProvider
from mledger.bookie.server.storage.reads import Parts
from mledger.bookie.version3_layout import varint
from mledger.bookie.version3_wire import STATUS

_HEADER = b"\x08\x03\x10"
FIELDS = {
    pb.READ_ENTRY: varint(100 << 3 | 2),
    pb.ADD_ENTRY: varint(101 << 3 | 2),
    pb.WRITE_LAC: varint(103 << 3 | 2),
    pb.READ_LAC: varint(104 << 3 | 2),
    pb.GET_BOOKIE_INFO: varint(105 << 3 | 2),
    pb.FORCE_LEDGER: varint(107 << 3 | 2),
    pb.GET_LIST_OF_ENTRIES_OF_LEDGER: varint(108 << 3 | 2),
}
"""Where in a response each operation's own is."""


class Version3Response(Struct, frozen=True):
    """What to send back, and the connection's new state."""

    frame: bytes
    authenticated: bool
    close: bool = False


def open_request(message: bytes) -> pb.Request:
    """The request in a message. MalformedFrame when it holds none."""
    try:
        request = pb.Request.FromString(message)
    except DecodeError as error:
        raise wire.MalformedFrame(f"not a version 3 request: {error}") from None
    if not request.IsInitialized():  # the parser does not check required fields
        raise wire.MalformedFrame("a version 3 request lacks a required field")
    return request


def is_handshake(request: pb.Request) -> bool:
    """Whether the connection's authentication answers the request."""
    return request.header.operation == pb.AUTH and request.HasField("authRequest")


def handshake(request: pb.Request, auth: AuthProvider | None) -> Version3Response:
    """The answer to an auth request on a connection that is not authenticated, or need not be."""
    if auth is None:
        return Version3Response(
            _with_message(request, pb.AuthMessage(authPluginName=DISABLED_PLUGIN, payload=b"")), True
        )
    if request.authRequest.authPluginName != auth.plugin:
        return Version3Response(refusal(request, Code.UNAUTHORIZED), False)
    step = auth.process(request.authRequest.payload)
    if step.answer is None:
        return Version3Response(refusal(request, Code.UNAUTHORIZED), False, close=True)
    message = pb.AuthMessage(authPluginName=auth.plugin, payload=step.answer)
    return Version3Response(_with_message(request, message), step.authenticated)


def refusal(request: pb.Request, code: Code) -> bytes:
    """A refusal without an operation's own response."""
    return frame(pb.Response(header=request.header, status=pb.StatusCode.ValueType(STATUS[code])))


def starts_tls(request: pb.Request) -> bool:
    """Whether a request asks to start TLS."""
    return request.header.operation == pb.START_TLS and request.HasField("startTLSRequest")


def tls_agreed(request: pb.Request) -> bytes:
    """The response that precedes the TLS handshake."""
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.START_TLS, txnId=request.header.txnId)
    return frame(pb.Response(header=header, status=pb.EOK, startTLSResponse=pb.StartTLSResponse()))


def unauthenticated(request: pb.Request) -> bytes:
    """The response to any request before its connection is authenticated."""
    return refusal(request, Code.BAD_REQUEST if starts_tls(request) else Code.UNAUTHORIZED)


def _with_message(request: pb.Request, message: pb.AuthMessage) -> bytes:
    return frame(pb.Response(header=request.header, status=pb.EOK, authResponse=message))


def frame(response: pb.Response) -> bytes:
    """A response as it is sent."""
    data = response.SerializeToString()
    return wire.LENGTH.pack(len(data)) + data


def answer(request: pb.Request, code: Code, *fields: bytes) -> Parts:
    """The response of the request's operation: its status, then `fields`, each made by `number` and `data`.

    It is assembled by hand, so that an entry in it is not copied.
    """
    operation, status = request.header.operation, varint(STATUS[code])
    header = _HEADER + varint(operation) + b"\x18" + varint(request.header.txnId)
    size = varint(1 + len(status) + sum(map(len, fields)))
    head = b"\n" + varint(len(header)) + header + b"\x10" + status + FIELDS[operation] + size + b"\x08" + status
    return [wire.LENGTH.pack(len(head) + sum(map(len, fields))) + head, *fields]


def number(field: int, value: int) -> bytes:
    """A number of an operation's response."""
    return bytes((field << 3,)) + varint(value)


def data(field: int, value: bytes) -> tuple[bytes, bytes]:
    """Bytes of an operation's response."""
    return bytes((field << 3 | 2,)) + varint(len(value)), value


def answer_version_2(frame: bytes, auth: AuthProvider | None, authenticated: bool) -> Version3Response:
    """The answer to a version 2 auth request. MalformedFrame when it holds no AuthMessage.

    A refusal has no frame: in version 2 the bookie can only close the connection.
    """
    _, header = wire.HEAD.unpack_from(frame)
    version = header >> 24
    try:
        message = pb.AuthMessage.FromString(frame[wire.HEAD.size :])
    except DecodeError as error:
        raise wire.MalformedFrame(f"not an auth message: {error}") from None
    if auth is None or authenticated:
        disabled = pb.AuthMessage(authPluginName=DISABLED_PLUGIN, payload=b"")
        return Version3Response(wire.encode_auth(disabled.SerializeToString(), version), True)
    step = auth.process(message.payload) if message.authPluginName == auth.plugin else None
    if step is None or step.answer is None:
        return Version3Response(b"", False, close=True)
    reply = pb.AuthMessage(authPluginName=auth.plugin, payload=step.answer)
    return Version3Response(wire.encode_auth(reply.SerializeToString(), version), step.authenticated)


def entry_read(request: pb.Request) -> tuple[int, int] | None:
    """Ledger and entry that a request reads; None for a request of another kind."""
    if request.header.operation != pb.READ_ENTRY or not request.HasField("readRequest"):
        return None
    read = request.readRequest
    return read.ledgerId, read.previousLAC + 1 if read.HasField("previousLAC") else read.entryId
