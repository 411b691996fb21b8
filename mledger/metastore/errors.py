"""Errors of the metadata store and of its records; `MledgerError` is the root of every error of this project."""

from collections.abc import Iterable


class MledgerError(Exception):
    """Root of all errors raised here: each says what happened, to what, and what to do."""


class PackageNotInstalled(MledgerError):
    """A package is missing that only some of what there is to do needs; says which extra brings it."""


class MetadataError(MledgerError):
    """The metadata store refused or failed; `path` names the node where one is concerned."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NodeNotFound(MetadataError):
    """The node does not exist, or the parent of a node to create does not."""


class NodeExists(MetadataError):
    """A node at that path exists already."""


class NodeNotEmpty(MetadataError):
    """A node with children cannot be deleted."""


class BadVersion(MetadataError):
    """The node is not at the expected version: somebody else changed it (M7)."""


class NoChildrenForEphemerals(MetadataError):
    """The parent is an ephemeral node, which can have no children."""


class NodeTooLarge(MetadataError):
    """A write exceeds the store's limit on one request; nothing was sent."""


class MetadataAccessDenied(MetadataError):
    """The store's access control forbids the operation; `closed` are the nodes of a request that are known so."""

    def __init__(self, message: str, path: str = "", closed: Iterable[str] = ()) -> None:
        super().__init__(message, path)
        self.closed = frozenset(closed) or frozenset({path})


class StoreUnavailable(MetadataError):
    """No answer in time, or no connection; it is not known whether a write was carried out."""


class SessionExpired(StoreUnavailable):
    """The session has ended at the server, and its ephemeral nodes with it; open a new store."""


class StoreClosed(MetadataError):
    """The store was closed by this program."""


class InvalidMetadataUrl(MetadataError):
    """A URL that names no supported metadata store."""


class InvalidMetadataDirectory(MetadataError):
    """A directory that cannot be served as a metadata store: in use, damaged, of another format or another program."""


class InvalidName(MetadataError):
    """A topic, cursor or bookie name that cannot be a node's name."""


class RecordError(MetadataError):
    """A record's bytes do not parse or contradict themselves; `path` says where they were read."""


class InvalidSetting(MledgerError):
    """A settings file, or a value in one, that cannot be used; the message says where it is."""


class ZooKeeperNotFound(MledgerError):
    """This machine has no ZooKeeper, or no Java to run it; the message says what to install."""


class ZooKeeperFailed(MledgerError):
    """A ZooKeeper server that was being started ended, or did not serve in time."""
