"""Errors of the metadata store and of its records; `MledgerError` is the root of every error of this project."""


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
    """The node, or the parent of a node to create, is not there."""


class NodeExists(MetadataError):
    """A node of that name is there already."""


class NodeNotEmpty(MetadataError):
    """A node with children cannot be deleted."""


class BadVersion(MetadataError):
    """The node is not at the version that was expected: somebody else changed it (M7)."""


class NoChildrenForEphemerals(MetadataError):
    """An ephemeral node can have no children."""


class NodeTooLarge(MetadataError):
    """A write that passes the store's limit on one request; nothing was sent."""


class MetadataAccessDenied(MetadataError):
    """The store's access control forbids it."""


class StoreUnavailable(MetadataError):
    """No answer in time, or no connection; whether a write was carried out is not known."""


class SessionExpired(StoreUnavailable):
    """The session has ended at the server, its ephemeral nodes with it; open a new store."""


class StoreClosed(MetadataError):
    """The store was closed by this program."""


class InvalidMetadataUrl(MetadataError):
    """A metadata URL that names no store known here."""


class InvalidMetadataDirectory(MetadataError):
    """A directory that cannot be served as a metadata store: in use, of another format, or another program's."""


class InvalidName(MetadataError):
    """A topic, cursor or bookie name that cannot be a node's name."""


class RecordError(MetadataError):
    """A record's bytes do not parse or contradict themselves; `path` says where they were read."""


class InvalidSetting(MledgerError):
    """A settings file, or a value in one, that cannot be used; the message says where it stands."""


class ZooKeeperNotFound(MledgerError):
    """This machine has no ZooKeeper, or no Java to run it on; the message says what to install."""


class ZooKeeperFailed(MledgerError):
    """A ZooKeeper server that was to start ended, or did not serve in time."""
