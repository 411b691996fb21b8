"""Cookies: the identity by which a bookie is recognised when it comes back (formats.md, ZooKeeper tree).

Cookies are written in version 5: a line with the version, then CookieFormat as protobuf text. Versions 4 (the same) and
3 (three lines) are read too.
"""

from google.protobuf import text_format
from msgspec import Struct

from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import LEDGERS, cookie_path
from mledger.metastore.records.pb.LedgerMetadata_pb2 import CookieFormat
from mledger.metastore.records.protobuf import parse_text, record_error
from mledger.metastore.store import MetadataReader, MetadataStore

CURRENT_VERSION = 5
OLDEST_VERSION = 3

_WHAT = "cookie"


class Cookie(Struct, frozen=True):
    """A bookie's identity: its id, its directories, the cluster instance it belongs to (None in version 3)."""

    bookie_id: str
    journal_dir: str
    ledger_dirs: tuple[str, ...]
    instance_id: str | None = None
    index_dirs: tuple[str, ...] | None = None
    version: int = CURRENT_VERSION


def decode_cookie(data: bytes, path: str = "") -> Cookie:
    """Decode the cookie in `data`, which was read at `path` (a node's or a file's); RecordError."""
    first, separator, body = data.partition(b"\n")
    if not separator or not (number := first.strip()).isdigit() or len(number) > 9:
        raise record_error(_WHAT, path, "it does not begin with its layout version")
    version = int(number)
    if not OLDEST_VERSION <= version <= CURRENT_VERSION:
        raise record_error(_WHAT, path, f"its layout version is {version}, this program reads 3 to 5")
    if version == OLDEST_VERSION:
        return _decode_version_3(body, path)
    message = parse_text(CookieFormat, body, _WHAT, path)
    return Cookie(
        bookie_id=message.bookieHost,
        journal_dir=message.journalDir,
        ledger_dirs=_directories(message.ledgerDirs, path),
        instance_id=message.instanceId if message.HasField("instanceId") else None,
        index_dirs=_directories(message.indexDirs, path) if message.HasField("indexDirs") else None,
        version=version,
    )


def encode_cookie(cookie: Cookie) -> bytes:
    """Encode the cookie in the current version, whichever version it was read in."""
    if any("\t" in directory for directory in (*cookie.ledger_dirs, *(cookie.index_dirs or ()))):
        raise RecordError(f"the cookie of {cookie.bookie_id} cannot be written: a directory has a tab in its name")
    message = CookieFormat(
        bookieHost=cookie.bookie_id,
        journalDir=cookie.journal_dir,
        ledgerDirs=_joined(cookie.ledger_dirs),
        instanceId=cookie.instance_id,
        indexDirs=None if cookie.index_dirs is None else _joined(cookie.index_dirs),
    )
    return f"{CURRENT_VERSION}\n{text_format.MessageToString(message)}".encode()


async def read_cookie(reader: MetadataReader, bookie_id: str, root: str = LEDGERS) -> tuple[Cookie, int]:
    """Read the bookie's cookie and the version of its node; NodeNotFound, RecordError."""
    path = cookie_path(bookie_id, root)
    node = await reader.get(path)
    return decode_cookie(node.data, path), node.version


async def write_cookie(store: MetadataStore, cookie: Cookie, version: int | None = None, root: str = LEDGERS) -> int:
    """Create the bookie's cookie, or replace it at `version`; return its node's version. NodeExists, BadVersion."""
    path = cookie_path(cookie.bookie_id, root)
    if version is not None:
        return await store.put(path, encode_cookie(cookie), version)
    await store.create(path, encode_cookie(cookie), parents=True)
    return 0


async def delete_cookie(store: MetadataStore, bookie_id: str, version: int, root: str = LEDGERS) -> None:
    """Delete the cookie of a bookie that is gone for good; NodeNotFound, BadVersion."""
    await store.delete(cookie_path(bookie_id, root), version)


def _decode_version_3(body: bytes, path: str) -> Cookie:
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError:
        raise record_error(_WHAT, path, "its text is not UTF-8") from None
    if len(lines) < 3:
        raise record_error(_WHAT, path, "its text is cut off: it has no line of ledger directories")
    return Cookie(lines[0], lines[1], _directories(lines[2], path), version=OLDEST_VERSION)


def _directories(text: str, path: str) -> tuple[str, ...]:
    count, *directories = text.split("\t")
    if count != str(len(directories)):
        raise record_error(_WHAT, path, f"{text!r} does not list as many directories as it says")
    return tuple(directories)


def _joined(directories: tuple[str, ...]) -> str:
    return "\t".join([str(len(directories)), *directories])
