"""The stored records of a topic, as they are shown in Pulsar's JSON."""

import uuid

from mledger.admin.internal_info import info_cursor, info_ledger
from mledger.admin.internal_stats import Offload
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo
from mledger.metastore.store import Stat

STAT = Stat(version=3, created_ms=0, modified_ms=1000, num_children=0, ephemeral_owner=0)


def test_an_open_ledger_shows_what_its_record_has():
    assert info_ledger(LedgerInfo(7), Offload()) == {
        "ledgerId": 7,
        "entries": None,
        "size": None,
        "timestamp": 0,
        "isOffloaded": False,
        "offloadedContextUuid": None,
    }


def test_an_offloaded_ledger_names_its_copy():
    name = uuid.UUID(int=5)
    shown = info_ledger(LedgerInfo(7, 2, 20, 9), Offload(complete=True, uuid=name))
    assert (shown["isOffloaded"], shown["offloadedContextUuid"]) == (True, str(name))


def test_a_cursor_shows_its_state_where_its_record_has_it():
    one, other = Position(7, 1), Position(7, 3)
    record = ManagedCursorInfo(mark_delete=one, ranges=(PositionRange(one, other),), properties=(("a", 1),))
    shown = info_cursor(STAT, record)
    assert shown["modificationDate"] == "1970-01-01T00:00:01.000Z"
    assert shown["markDelete"] == {"ledgerId": 7, "entryId": 1}
    assert shown["individualDeletedMessages"] == (
        {"from": {"ledgerId": 7, "entryId": 1}, "to": {"ledgerId": 7, "entryId": 3}},
    )
    assert shown["properties"] == {"a": 1}
    assert info_cursor(STAT, None)["markDelete"] is None
