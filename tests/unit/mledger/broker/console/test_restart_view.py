"""A dry run of recovery, beside what is in memory now."""

from mledger.admin.cursor_inspection import CursorInspection
from mledger.broker.console.restart_view import RULES, plan_restart
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.errors import CursorRecoveryFailed
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo


def test_what_would_be_delivered_again_is_counted():
    record = ManagedCursorInfo(mark_delete=Position(1, 3))
    plan = plan_cursor_recovery("sub", record, None, LedgerList([LedgerInfo(1, 10, 100)]))
    found = [
        CursorInspection("sub", "/sub", 0, record, plan),
        CursorInspection("lost", "/lost", 0, None, None, CursorRecoveryFailed("no bookie")),
    ]
    stats = {"subscriptions": {"sub": {"msgBacklog": 2}}}
    sub, lost = plan_restart(found, stats, {"cursors": {"sub": {"markDeletePosition": "1:7"}}})
    assert (sub.backlog, sub.backlog_now, sub.again) == (6, 2, 4)
    assert (sub.position_now, sub.position, sub.rules[0]) == ("1:7", "1:3", ("R2", RULES["R2"]))
    assert (lost.error, lost.again) == ("no bookie", None)
