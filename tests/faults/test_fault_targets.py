"""Why an owner or a bookie ended: what the fault or a busy machine does, and what is wrong."""

import pytest

from tests.faults.soak.fault_targets import End, plan_end, was_refused_session

FENCED = ("ManagedLedgerFenced", "topic: its record is at version 3, not at 2: another owner wrote it")
SESSION_LOST = ("ManagedLedgerFenced", "topic: its session with the metadata store has ended")
NO_CONNECTION = ("StoreUnavailable", "/path: the connection to ZooKeeper at 127.0.0.1:1 was lost")


@pytest.mark.parametrize("error", [FENCED, SESSION_LOST, NO_CONNECTION, ("SessionExpired", "")])
def test_a_fault_of_sessions_may_end_an_owner(error):
    assert plan_end(error, may_end=True) is End.EXPECTED


@pytest.mark.parametrize("error", [SESSION_LOST, NO_CONNECTION, ("SessionExpired", ""), ("NotEnoughBookies", "")])
def test_servers_that_get_no_processor_time_end_an_owner_whatever_the_fault_is(error):
    assert plan_end(error, may_end=False) is End.STARVED


@pytest.mark.parametrize("error", [FENCED, ("LedgerConflict", ""), None])
def test_any_other_end_of_an_owner_is_wrong(error):
    assert plan_end(error, may_end=False) is End.WRONG


def test_a_bookie_that_got_no_session_is_told_from_one_that_refuses_its_files():
    begin = "level=info event=starting\n"
    away = begin + 'level=error event=failed error="no ZooKeeper answers at 127.0.0.1:1 within 3 s"\n'
    assert was_refused_session(away)
    assert was_refused_session(away + 'level=warning message="Connection dropped"\n')
    assert not was_refused_session(away + 5 * begin + 'level=error event=failed error="journal: record 7 is bad"\n')
    assert not was_refused_session(begin)
