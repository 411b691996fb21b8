"""Checks which bookie a directory belongs to, and whether it may start, before anything in it changes.

- A directory belongs to one bookie of one cluster for good.
- The cookie in the metadata store must be the one that the directory would write.
- An empty directory cannot replace one that has been registered: its entries would be missing.
- A directory that was moved has a cookie that names its former place. Where its metadata store moved with it, as in a
  standalone, it is no copy beside an original of the same cluster: the cookie is then written anew, if that is wished.
- All of this is checked again in each new session: a bookie that was away for so long may have been decommissioned.
"""

import contextlib
import enum
import os
import socket

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.storage.directories.directory import BookieDirectory, DirectoryFormat, new_format
from mledger.metastore.cluster.cookies import Cookie, read_cookie, write_cookie
from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound
from mledger.metastore.runtime.network.listening_port import NAME_ANOTHER, PortUnavailable, bind_listener
from mledger.metastore.store import MetadataReader, MetadataStore

_END_IT = "the bookie's entries are known by this port: end the program that has it"
_GIVE_MOVED = ", or, if the data was moved or restored here, give --moved"


class Relocation(enum.Enum):
    """Whether a directory may be the bookie's at another place than its cookie's, and at another port than its id's."""

    REFUSED = "refused"
    ADVISED = "advised"
    """Refused; there is an option that allows it."""
    ALLOWED = "allowed"

    @property
    def advice(self) -> str:
        """What else to do than what a refusal says."""
        return _GIVE_MOVED if self is Relocation.ADVISED else ""


class IdentityPlan(Struct, frozen=True):
    """What to write before the storage is opened: the directory's format and cookie; None where there is one."""

    begin: DirectoryFormat | None
    write_cookie: bool


def default_port(found: DirectoryFormat | None, host: str) -> int:
    """The port that a directory's bookie had when its id is host:port; 0 when it has none."""
    if found is None:
        return 0
    name, _, port = found.bookie_id.rpartition(":")
    return int(port) if name == host and port.isdigit() else 0


def own_id(found: DirectoryFormat | None, announced: str, port: int, relocation: Relocation) -> str:
    """The id of a directory's bookie that listens at `port`; empty if it has none, or that names another port."""
    if found is None:
        return ""
    stays = relocation is Relocation.ALLOWED or default_port(found, announced) in (0, port)
    return found.bookie_id if stays else ""


def listen(
    found: DirectoryFormat | None,
    host: str,
    announced: str,
    port: int,
    relocation: Relocation = Relocation.REFUSED,
) -> socket.socket:
    """Listen at `port`; with 0 where the directory's bookie was before, else at a free one.

    If its port is taken, a bookie whose relocation is allowed listens at a free one.

    Raises:
        PortUnavailable: the port is in use, or the address is not of this machine.
    """
    known = default_port(found, announced)
    if known and port not in (0, known):
        advice = f"the directory's bookie is known by port {known}: name that one"
    else:
        advice = _END_IT + relocation.advice if known else NAME_ANOTHER
    try:
        return bind_listener(host, port or known, if_in_use=advice)
    except PortUnavailable:
        if relocation is not Relocation.ALLOWED or port:
            raise
        return bind_listener(host, 0)


def plan_identity(
    path: str,
    found: DirectoryFormat | None,
    begun: bool,
    bookie_id: str,
    instance: str,
    own: Cookie,
    stored: Cookie | None,
    relocation: Relocation = Relocation.REFUSED,
) -> IdentityPlan:
    """Decide whether the directory at `path` may serve as the bookie `bookie_id` of the cluster `instance`.

    Args:
        path: the directory.
        found: what its format file says, None for an empty directory.
        begun: whether it may hold entries.
        bookie_id: the bookie that is to use it.
        instance: the cluster's instance id.
        own: the cookie it would write.
        stored: the cookie of `bookie_id` in the metadata store.
        relocation: whether the directory may have been elsewhere before.

    Raises:
        InvalidBookieDirectory: it may not; the message says why and what to do.
    """
    if found is None and stored is not None:
        raise InvalidBookieDirectory(
            f"{path} is empty, but bookie {bookie_id} is registered with {', '.join(stored.ledger_dirs)}: start it on "
            f"that directory, or have its ledgers re-replicated and its cookie deleted first"
        )
    if found is not None and found.bookie_id != bookie_id:
        raise InvalidBookieDirectory(
            f"{path} belongs to bookie {found.bookie_id}, not to {bookie_id}: start it under that id, or name another "
            f"directory"
        )
    if found is not None and found.instance_id != instance:
        raise InvalidBookieDirectory(
            f"{path} belongs to the cluster {found.instance_id}, this one is {instance}: correct the metadata URL, or "
            f"name another directory"
        )
    if stored is None:
        if begun:
            raise InvalidBookieDirectory(
                f"{path} holds entries, but the cluster has no cookie of bookie {bookie_id}: it was decommissioned; "
                f"name an empty directory; or, where a backup from before the bookie was restored, keep the entries: "
                f"`mledger bookies cookie write {bookie_id} --journal-dir {own.journal_dir} --ledger-dir {path}`"
            )
        return IdentityPlan(new_format(bookie_id, instance) if found is None else None, True)
    if relocation is Relocation.ALLOWED and _is_moved(stored, own):
        return IdentityPlan(None, True)
    if _identity(stored) != _identity(own):
        raise InvalidBookieDirectory(
            f"the cookie of bookie {bookie_id} names {', '.join(stored.ledger_dirs)} (cluster {stored.instance_id}), "
            f"not {path}: start it on that directory{relocation.advice}"
        )
    return IdentityPlan(None, False)


async def establish(
    store: MetadataStore,
    directory: BookieDirectory,
    bookie_id: str,
    instance: str,
    root: str,
    relocation: Relocation = Relocation.REFUSED,
) -> None:
    """Check that the directory is the bookie's, and claim it if it is new, or has moved. InvalidBookieDirectory.

    The metadata store is synced before it is read, as in `confirm`.
    """
    await store.sync()
    own, version, plan = await _look(store, directory, bookie_id, instance, root, relocation)
    if plan.begin is None:
        directory.check_parts()
    else:
        directory.begin(replace(plan.begin, journal=directory.journal_entry))
    if plan.write_cookie:
        try:
            await write_cookie(store, own, version, root=root)
        except (NodeExists, BadVersion):
            raise InvalidBookieDirectory(
                f"another bookie {bookie_id} registered just now: name another id for {directory.path}"
            ) from None


async def confirm(store: MetadataReader, directory: BookieDirectory, bookie_id: str, root: str) -> None:
    """Check that the directory being served is still the bookie's. InvalidBookieDirectory.

    While the bookie was unregistered it may have been decommissioned: entries that it took then would be refused at its
    next start. The metadata store is synced before it is read (Q9).
    """
    await store.sync()
    await _look(store, directory, bookie_id, await instance_id(store, root), root)


async def _look(
    store: MetadataReader,
    directory: BookieDirectory,
    bookie_id: str,
    instance: str,
    root: str,
    relocation: Relocation = Relocation.REFUSED,
) -> tuple[Cookie, int | None, IdentityPlan]:
    """The cookie that the directory would write, the version of the one that is there, and what to write."""
    own = Cookie(bookie_id, directory.journal, (directory.path,), instance)
    stored: Cookie | None = None
    version: int | None = None
    with contextlib.suppress(NodeNotFound):
        stored, version = await read_cookie(store, bookie_id, root)
    plan = plan_identity(
        directory.path, directory.format, directory.begun, bookie_id, instance, own, stored, relocation
    )
    return own, version, plan


def _is_moved(stored: Cookie, own: Cookie) -> bool:
    """Whether the cookies differ by the place of the directories alone: each has its name, and the journal is below."""
    return stored != own and _names(stored) == _names(own)


def _names(cookie: Cookie) -> tuple[str, str | None, list[str], list[str]]:
    parts = [os.path.basename(each) for each in cookie.ledger_dirs]
    journal = [os.path.relpath(cookie.journal_dir, each) for each in cookie.ledger_dirs]
    return cookie.bookie_id, cookie.instance_id, parts, journal


def _identity(cookie: Cookie) -> tuple[str, str, tuple[str, ...], str | None]:
    return cookie.bookie_id, cookie.journal_dir, cookie.ledger_dirs, cookie.instance_id
