"""What an undo does to each record, as values."""

import enum
from collections.abc import Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.metastore.records.codec import encode_managed_cursor_info
from mledger.metastore.records.values import ManagedCursorInfo
from mledger.metastore.store import Check, Create, Delete, Operation, Put


class UndoAction(enum.Enum):
    """What an undo does to a record."""

    SET = "set"
    CREATE = "create"
    DELETE = "delete"
    LEAVE = "leave"


class CursorLedger(Struct, frozen=True):
    """A cursor ledger to write before the record that names it; `state` is its entry, an encoded PositionInfo."""

    record: ManagedCursorInfo
    state: bytes
    compression: str = "NONE"


class Restoration(Struct, frozen=True):
    """How one record is restored: its `data`, or the `cursor_ledger` to write first and name in it.

    `version` is the current version, None if there is no node. `begins_as` is what a deleted topic holds while its
    cursors are restored in pieces: its record without ledgers, because an owner that opened it then would trim them.
    `names_again` are ledgers that the record does not name now, `recorded` those of them with a deletion record.
    `unlists` are the ledgers that a record to delete names, `to_record` those of them without a deletion record.
    """

    path: str
    action: UndoAction
    data: bytes = b""
    version: int | None = None
    cursor_ledger: CursorLedger | None = None
    drops: int | None = None  # a cursor ledger that no record names afterwards
    managed_ledger: str = ""
    note: str = ""
    begins_as: bytes | None = None
    names_again: tuple[int, ...] = ()
    recorded: tuple[int, ...] = ()
    unlists: tuple[int, ...] = ()
    to_record: tuple[int, ...] = ()

    def operation(self, cursor_ledger: int | None) -> Operation | None:
        """The write, with the `cursor_ledger` that was written for it; None if the record is left."""
        data = self.data
        if self.cursor_ledger is not None and cursor_ledger is not None:
            naming = replace(self.cursor_ledger.record, cursors_ledger_id=cursor_ledger)
            data = encode_managed_cursor_info(naming, compression=self.cursor_ledger.compression)
        if self.action is UndoAction.CREATE:
            return Create(self.path, data)
        if self.version is None or self.action is UndoAction.LEAVE:
            return None
        return (
            Delete(self.path, self.version) if self.action is UndoAction.DELETE else Put(self.path, data, self.version)
        )


class UndoPlan(Struct, frozen=True):
    """What undoing does to each record, if `checks` hold; `lost` is what cannot be restored.

    A check that is a write leaves the topic's record as it is, and fences its owner.

    `topics` are the managed ledgers; `in_pieces`: it may not fit one request (M11). `two_stores`: ledgers have their
    own metadata store, and no request spans both. `created` is when each node was created, in ms since 1970, by path.
    """

    restorations: tuple[Restoration, ...]
    checks: tuple[Check | Put, ...]
    lost: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    in_pieces: bool = False
    two_stores: bool = False
    created: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes(self) -> tuple[Restoration, ...]:
        """The restorations that write something."""
        return tuple(each for each in self.restorations if each.action is not UndoAction.LEAVE)

    def without(self, paths: Collection[str]) -> "UndoPlan":
        """The plan for all nodes but those at `paths`."""
        return replace(self, restorations=tuple(each for each in self.restorations if each.path not in paths))
