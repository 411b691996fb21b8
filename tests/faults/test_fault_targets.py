"""Why an owner ended: because of the fault, of a busy machine, or of neither."""

import pytest

from tests.faults.soak.fault_targets import End, plan_end

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
