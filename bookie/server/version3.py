"""Version 3 frames, as far as they are served: auth, bookie info; the rest is refused as Java refuses what it lacks."""

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from bookie import wire
from bookie.pb import BookkeeperProtocol_pb2 as pb
from bookie.server.auth import DISABLED_PLUGIN, AuthProvider
from bookie.server.disk import Disk


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back, and what became of the connection."""

    frame: bytes
    authenticated: bool
    close: bool = False


def answer_request(
    message: bytes, auth: AuthProvider | None, authenticated: bool, disk: Callable[[], Disk] | None = None
) -> Answer:
    """The answer to a version 3 request; `disk` looks at the bookie's. MalformedFrame when the bytes are none."""
    try:
        request = pb.Request.FromString(message)
    except DecodeError as error:
        raise wire.MalformedFrame(f"no version 3 request: {error}") from None
    if not request.header.IsInitialized():  # the parser leaves out whether required fields are there
        raise wire.MalformedFrame("a version 3 request without version, operation or transaction id")
    operation = request.header.operation
    if operation == pb.AUTH and request.HasField("authRequest") and (not authenticated or auth is None):
        return _handshake(request, auth)
    if not authenticated and operation != pb.START_TLS:
        return Answer(_respond(request, pb.EUA), authenticated)
    if operation == pb.GET_BOOKIE_INFO and request.HasField("getBookieInfoRequest") and disk is not None:
        return Answer(_bookie_info(request, disk()), authenticated)
    return Answer(_respond(request, pb.EBADREQ), authenticated)


def _bookie_info(request: pb.Request, disk: Disk) -> bytes:
    wanted, info = request.getBookieInfoRequest.requested, pb.GetBookieInfoResponse(status=pb.EOK)
    if wanted & pb.GetBookieInfoRequest.TOTAL_DISK_CAPACITY:
        info.totalDiskCapacity = disk.size
    if wanted & pb.GetBookieInfoRequest.FREE_DISK_SPACE:
        info.freeDiskSpace = disk.free
    data = pb.Response(header=request.header, status=pb.EOK, getBookieInfoResponse=info).SerializeToString()
    return wire.LENGTH.pack(len(data)) + data


def _handshake(request: pb.Request, auth: AuthProvider | None) -> Answer:
    if auth is None:
        return Answer(_respond(request, pb.EOK, pb.AuthMessage(authPluginName=DISABLED_PLUGIN, payload=b"")), True)
    if request.authRequest.authPluginName != auth.plugin:
        return Answer(_respond(request, pb.EUA), False)
    step = auth.process(request.authRequest.payload)
    if step.answer is None:
        return Answer(_respond(request, pb.EUA), False, close=True)
    message = pb.AuthMessage(authPluginName=auth.plugin, payload=step.answer)
    return Answer(_respond(request, pb.EOK, message), step.authenticated)


def _respond(request: pb.Request, status: pb.StatusCode.ValueType, message: pb.AuthMessage | None = None) -> bytes:
    response = pb.Response(header=request.header, status=status, authResponse=message)
    data = response.SerializeToString()
    return wire.LENGTH.pack(len(data)) + data


def answer_version_2(frame: bytes, auth: AuthProvider | None, authenticated: bool) -> Answer:
    """The answer to a version 2 auth request. MalformedFrame when it holds no AuthMessage.

    A refusal has no frame: version 2 has no way to say so but to close.
    """
    _, header = wire.HEAD.unpack_from(frame)
    version = header >> 24
    try:
        message = pb.AuthMessage.FromString(frame[wire.HEAD.size :])
    except DecodeError as error:
        raise wire.MalformedFrame(f"no auth message: {error}") from None
    if auth is None or authenticated:
        disabled = pb.AuthMessage(authPluginName=DISABLED_PLUGIN, payload=b"")
        return Answer(wire.encode_auth(disabled.SerializeToString(), version), True)
    step = auth.process(message.payload) if message.authPluginName == auth.plugin else None
    if step is None or step.answer is None:
        return Answer(b"", False, close=True)
    reply = pb.AuthMessage(authPluginName=auth.plugin, payload=step.answer)
    return Answer(wire.encode_auth(reply.SerializeToString(), version), step.authenticated)
