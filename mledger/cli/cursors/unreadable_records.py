"""Cursors whose record does not parse: shown, saved in the undo file, then deleted or recreated (M12).

The topic is not opened, since its owner cannot recover such a cursor. Where the record is replaced,
the same write rewrites the topic's record unchanged, which fences an owner: one that had the cursor
before its record was damaged would trim by its memory what the new one is to read. A write that is
refused has changed nothing: what others made of the record is not for undo.
"""

from dataclasses import dataclass

from mledger.admin.undo.undo_file import ChangedRecord
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import CommandChange, Facts
from mledger.cli.shared.changes.unreadable_record import unreadable_record
from mledger.cli.shared.output.results import fields
from mledger.cursors.plans import plan_new_record
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.errors import BadVersion, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, encode_managed_cursor_info
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import ANY_VERSION, Check, Delete, Operation, Put
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own

LEDGER_LEFT = "if it has a cursor ledger, nothing will name that ledger: `topics repair` finds and deletes it"


@dataclass(frozen=True, slots=True)
class UnreadableCursor:
    """A cursor's record that does not parse; `reason` says what is wrong with it."""

    path: str
    data: bytes
    version: int
    reason: str

    @property
    def facts(self) -> Facts:
        """The fields for a plan, with the first bytes in hexadecimal."""
        return fields(**unreadable_record(self.reason, self.data))


def find_unreadable(record: ChangedRecord) -> UnreadableCursor | None:
    """The cursor of `record` if its bytes do not parse, else None."""
    if record.before is None:
        return None
    try:
        decode_managed_cursor_info(record.before.data, record.path)
    except RecordError as error:
        return UnreadableCursor(record.path, record.before.data, record.before.version, str(error))
    return None


async def delete_record(url: str, change: CommandChange, cursor: UnreadableCursor) -> None:
    """Delete the record for `change`. Raises BadVersion if it has changed."""
    await _write(url, change, Delete(cursor.path, cursor.version), Check(cursor.path.rpartition("/")[0], ANY_VERSION))
    name, *_ = change.managed_ledgers
    change.left_at[name] = change.planned_at[name]


async def recreate(
    url: str, change: CommandChange, cursor: UnreadableCursor, ledgers: LedgerList, to: Position | str
) -> Position:
    """Replace the record with one that reads from `to` on, and fence an owner; returns the mark-delete position.

    `change` relies on the topic's record, which has the `ledgers`. Raises BadVersion if one of the records has changed.
    """
    record = plan_new_record(ledgers, to, wall_clock_ms())
    ((name, planned_at),) = change.planned_at.items()
    (topic,) = change.relied_on
    assert topic.before is not None
    assert record.mark_delete is not None
    put = Put(cursor.path, encode_managed_cursor_info(record), cursor.version)
    await _write(url, change, put, Put(topic.path, topic.before.data, planned_at))
    change.left_at[name] = planned_at + 1
    return record.mark_delete


async def _write(url: str, change: CommandChange, *operations: Operation) -> None:
    name, *_ = change.managed_ledgers
    async with await open_store(url) as store:
        change_command.on_step("write cursor record")
        change.touch(name)
        try:
            await multi_own(store, operations)
        except (BadVersion, NodeNotFound):
            change.untouched[name] = ()
            raise
