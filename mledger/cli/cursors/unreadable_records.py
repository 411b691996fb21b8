"""Cursors whose record does not parse: shown as they are, kept in the undo file, then deleted or made anew (M12).

The topic is not opened: its owner could not take such a cursor up. One that is open reads the record again by and by.
"""

import time
from dataclasses import dataclass

from mledger.admin.undo.undo_file import ChangedRecord
from mledger.cli.shared import change_command
from mledger.cli.shared.change_command import Facts
from mledger.cli.shared.output import fields
from mledger.cursors.plans import plan_new_record
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, encode_managed_cursor_info
from mledger.metastore.records.position import Position
from mledger.metastore.store import ANY_VERSION, Check, Delete, Operation, Put
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own

LEDGER_LEFT = "nothing names its cursor ledger afterwards, should it have one: `topics repair` finds and removes it"
SHOWN_BYTES = 256


@dataclass(frozen=True, slots=True)
class UnreadableCursor:
    """A cursor's record that does not parse, as it was read; `reason` says what is wrong with it."""

    path: str
    data: bytes
    version: int
    reason: str

    @property
    def facts(self) -> Facts:
        """What a plan shows of it: the bytes in hexadecimal, the first ones of many."""
        shown = self.data[:SHOWN_BYTES].hex(" ", 4)
        more = len(self.data) - SHOWN_BYTES
        return fields(
            unreadable=self.reason,
            record_bytes=len(self.data),
            record=f"{shown} … {more} bytes more, all of them in the undo file" if more > 0 else shown,
        )


def find_unreadable(record: ChangedRecord) -> UnreadableCursor | None:
    """The cursor whose node was read into `record`, if its bytes do not parse."""
    if record.before is None:
        return None
    try:
        decode_managed_cursor_info(record.before.data, record.path)
    except RecordError as error:
        return UnreadableCursor(record.path, record.before.data, record.before.version, str(error))
    return None


async def delete_record(url: str, cursor: UnreadableCursor) -> None:
    """Delete the record, if it is as it was read; BadVersion."""
    await _write(url, cursor, Delete(cursor.path, cursor.version))


async def make_anew(url: str, cursor: UnreadableCursor, ledgers: LedgerList, to: Position | str) -> Position:
    """Put a record there that reads from `to` on, if it is as it was read; the mark-delete position. BadVersion."""
    record = plan_new_record(ledgers, to, time.time_ns() // 1_000_000)
    await _write(url, cursor, Put(cursor.path, encode_managed_cursor_info(record), cursor.version))
    assert record.mark_delete is not None
    return record.mark_delete


async def _write(url: str, cursor: UnreadableCursor, change: Operation) -> None:
    async with await open_store(url) as store:
        change_command.on_step("write cursor record")
        await multi_own(store, [change, Check(cursor.path.rpartition("/")[0], ANY_VERSION)])
