"""Registrations of bookies: which serve, and where (formats.md, ZooKeeper tree). `cookies` is exported here too."""

import contextlib
from collections.abc import Iterable

from msgspec import Struct

from mledger.metastore.cluster.cookies import (
    Cookie,
    decode_cookie,
    delete_cookie,
    encode_cookie,
    read_cookie,
    write_cookie,
)
from mledger.metastore.errors import BadVersion, InvalidName, NodeExists, NodeNotFound, RecordError, StoreUnavailable
from mledger.metastore.records.paths import LEDGERS, bookie_path, check_bookie_id
from mledger.metastore.records.pb.LedgerMetadata_pb2 import BookieServiceInfoFormat
from mledger.metastore.records.protobuf import parse_binary, record_error, text_of
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import ANY_VERSION, Create, Delete, MetadataReader, MetadataStore, Node

__all__ = [
    "BookieRegistration",
    "Cookie",
    "decode_cookie",
    "decode_registration",
    "delete_cookie",
    "encode_cookie",
    "encode_registration",
    "list_bookies",
    "read_cookie",
    "register",
    "registered_at",
    "resolve",
    "unregister",
    "write_cookie",
]

RPC_PROTOCOL = "bookie-rpc"
"""The protocol of the endpoint that takes entries."""

HTTP_PROTOCOL = "http"
"""The protocol of the endpoint for metrics and administration."""

_ENDPOINT = "bookie"
_HTTP_ENDPOINT = "httpserver"
_VERSION = "mledger.version"
_DIRECTORY = "mledger.directory"
_WHAT = "registration"
_READ_ONLY = "readonly"
_ATTEMPTS = 10
_LONGEST_PORT = 9  # digits; Python converts no number that is far longer

log = get_logger(__name__)


class BookieRegistration(Struct, frozen=True):
    """A registered bookie: the address its id resolves to, and whether it is read-only."""

    bookie_id: str
    host: str
    port: int
    read_only: bool = False
    http: str = ""
    """The endpoint of its metrics and health, host:port; empty where it names none."""
    version: str = ""
    """The program's version; only mledger's bookies give one."""


def decode_registration(bookie_id: str, data: bytes, *, read_only: bool = False, path: str = "") -> BookieRegistration:
    """Decode a bookie's node; if it is empty, the id itself is host:port. RecordError if it has no RPC endpoint."""
    if not data:
        host, separator, port = bookie_id.rpartition(":")
        number = port.isascii() and port.isdigit() and len(port) <= _LONGEST_PORT
        if not separator or not host or not number or int(port) > 0xFFFF:
            raise record_error(_WHAT, path, f"it is empty, and the id {bookie_id!r} is not host:port")
        return BookieRegistration(bookie_id, host, int(port), read_only)
    message = parse_binary(BookieServiceInfoFormat, data, _WHAT, path)
    for endpoint in message.endpoints:
        if endpoint.protocol == RPC_PROTOCOL:
            host = text_of(endpoint.host, _WHAT, path)
            if not host or not 0 < endpoint.port <= 0xFFFF:
                raise record_error(_WHAT, path, f"host {host!r} and port {endpoint.port} are not an address")
            http = next(
                (f"{each.host}:{each.port}" for each in message.endpoints if each.protocol == HTTP_PROTOCOL), ""
            )
            version = next((item.value for item in message.properties if item.key == _VERSION), "")
            return BookieRegistration(bookie_id, host, endpoint.port, read_only, http, version)
    raise record_error(_WHAT, path, f"the bookie {bookie_id} has no endpoint of the protocol {RPC_PROTOCOL}")


def encode_registration(
    host: str, port: int, http: tuple[str, int] | None = None, version: str = "", directory: str = ""
) -> bytes:
    """Encode the registration of a bookie that serves at `host` and `port`, and HTTP at `http`."""
    message = BookieServiceInfoFormat()
    message.endpoints.add(id=_ENDPOINT, host=host, port=port, protocol=RPC_PROTOCOL)
    if http is not None:
        message.endpoints.add(id=_HTTP_ENDPOINT, host=http[0], port=http[1], protocol=HTTP_PROTOCOL)
    if version:
        message.properties.add(key=_VERSION, value=version)
    if directory:
        message.properties.add(key=_DIRECTORY, value=directory)
    return message.SerializeToString()


async def list_bookies(reader: MetadataReader, root: str = LEDGERS) -> list[BookieRegistration]:
    """All registered bookies, the writable ones first, each by id; NodeNotFound when the cluster is not initialised.

    An unreadable registration is left out with a warning: nobody can reach that bookie.
    """
    writable, read_only = await reader.children_many([f"{root}/available", f"{root}/available/{_READ_ONLY}"])
    if writable is None:
        path = f"{root}/available"
        raise NodeNotFound(f"{path} does not exist: initialise the cluster, or correct its root", path)
    ids = [(bookie_id, False) for bookie_id in writable if bookie_id != _READ_ONLY and _is_id(bookie_id)]
    ids += [(bookie_id, True) for bookie_id in read_only or () if _is_id(bookie_id)]
    nodes = await reader.get_many([_path(root, bookie_id, kind) for bookie_id, kind in ids])
    found = [_listed(root, bookie_id, kind, node) for (bookie_id, kind), node in zip(ids, nodes, strict=True)]
    return [registration for registration in found if registration is not None]


def resolve(registrations: Iterable[BookieRegistration], bookie_id: str) -> tuple[str, int]:
    """Host and port of a bookie; if it is not registered, its id is tried as host:port.

    InvalidName when neither is an address, or another bookie is registered there too: which one serves is not known.
    """
    known: dict[str, tuple[str, int]] = {}
    for each in registrations:
        known.setdefault(each.bookie_id, (each.host, each.port))
    place = known.get(bookie_id)
    if place is None:
        try:
            guess = decode_registration(bookie_id, b"")
        except RecordError:
            raise InvalidName(f"the bookie {bookie_id} is not registered: its address is not known") from None
        place = guess.host, guess.port
    other = next((name for name, there in known.items() if there == place and name != bookie_id), None)
    if other is not None:
        raise InvalidName(f"the bookie {other} is registered at {place[0]}:{place[1]} too: one of them is gone")
    return place


async def registered_at(
    reader: MetadataReader, host: str, port: int, *, without: str, root: str = LEDGERS
) -> list[str]:
    """Ids of the bookies, except `without`, that are registered at an address, in a state not older than the question.

    None if the cluster has not had a bookie yet.
    """
    await reader.sync()
    try:
        bookies = await list_bookies(reader, root)
    except NodeNotFound:
        return []
    return sorted({each.bookie_id for each in bookies if (each.host, each.port) == (host, port)} - {without})


async def register(
    store: MetadataStore,
    bookie_id: str,
    host: str,
    port: int,
    *,
    read_only: bool = False,
    directory: str = "",
    root: str = LEDGERS,
    http: tuple[str, int] | None = None,
    version: str = "",
) -> None:
    """Register the bookie for as long as this store's session lives; a second call in the session does nothing.

    NodeExists while another session holds a registration, writable or read-only: another bookie with that id, or this
    bookie's former process, whose registration ends with its session time-out. A registration at the same host and port
    with the same mark of a `directory` is replaced at once. Give the mark only of a directory that is locked: then its
    former process is dead. The address alone does not prove that, since another machine may announce it too.
    """
    path = _path(root, bookie_id, read_only)
    data = encode_registration(host, port, http, version, directory)
    other = _path(root, bookie_id, not read_only)
    await _refuse_another(store, other, data)
    await _register_in(store, path, data)
    try:  # once more: of two that register in different lists at the same time, at least one finds the other
        await _refuse_another(store, other, data)
    except NodeExists:
        await unregister(store, bookie_id, read_only=read_only, root=root)
        raise


async def _refuse_another(store: MetadataStore, path: str, data: bytes) -> None:
    """Raise NodeExists if another session's bookie is registered at `path`, the list that is not to be written."""
    try:
        node = await store.get(path)
    except NodeNotFound:
        return
    own = node.stat.ephemeral_owner == store.owner_at(path)
    if not own and not _same_directory(node.data, data):
        raise _registered_elsewhere(path)


async def _register_in(store: MetadataStore, path: str, data: bytes) -> None:
    for _ in range(_ATTEMPTS):  # a former process's registration may disappear at any time, with its session
        if await _announce(store, path, data):
            return
        try:
            node = await store.get(path)
        except NodeNotFound:
            continue
        if node.stat.ephemeral_owner == store.owner_at(path):
            return
        if not _same_directory(node.data, data):
            break
        with contextlib.suppress(NodeNotFound, NodeExists, BadVersion):
            await store.multi([Delete(path, node.version), Create(path, data, ephemeral=True)])
            return
    raise _registered_elsewhere(path)


def _registered_elsewhere(path: str) -> NodeExists:
    return NodeExists(
        f"the bookie {path.rpartition('/')[2]} is registered by another session: stop the other bookie of that id, or "
        f"wait for the session of this one's former process to end",
        path,
    )


async def unregister(store: MetadataStore, bookie_id: str, *, read_only: bool = False, root: str = LEDGERS) -> None:
    """Remove the registration, if there is one."""
    path = _path(root, bookie_id, read_only)
    try:
        await store.delete(path, ANY_VERSION)
    except NodeNotFound:
        log.debug("bookie_not_registered", path=path)


def _same_directory(data: bytes, own: bytes) -> bool:
    """Whether a registration names the same host, port and directory as ours; the rest may be of another version."""
    found, ours = _place_of(data), _place_of(own)
    return found == ours and bool(ours and ours[-1])


def _place_of(data: bytes) -> tuple[str, int, str] | None:
    """The host, the port and the mark of the directory that a registration names; None if it is not one of ours."""
    try:
        message = parse_binary(BookieServiceInfoFormat, data, _WHAT, "")
        found = decode_registration("", data)
    except RecordError:
        return None
    return found.host, found.port, next((each.value for each in message.properties if each.key == _DIRECTORY), "")


async def _announce(store: MetadataStore, path: str, data: bytes) -> bool:
    try:
        await store.create(path, data, ephemeral=True, parents=True)
    except NodeExists:
        return False
    except StoreUnavailable:
        # The node's owner shows whether the create was carried out.
        if await store.exists(path) is None:
            raise
        return False
    return True


def _listed(root: str, bookie_id: str, read_only: bool, node: Node | None) -> BookieRegistration | None:
    if node is None:
        return None
    path = f"{root}/available/{_READ_ONLY + '/' if read_only else ''}{bookie_id}"
    try:
        return decode_registration(bookie_id, node.data, read_only=read_only, path=path)
    except RecordError as error:
        log.warning("bookie_left_out", bookie=bookie_id, error=error)
        return None


def _is_id(bookie_id: str) -> bool:
    """Whether a bookie can be called so; where none can, a warning says that the node is left out."""
    try:
        check_bookie_id(bookie_id)
    except InvalidName as error:
        log.warning("bookie_left_out", bookie=bookie_id, error=error)
        return False
    return True


def _path(root: str, bookie_id: str, read_only: bool) -> str:
    return bookie_path(bookie_id, read_only=read_only, root=root)
