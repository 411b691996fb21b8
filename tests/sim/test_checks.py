"""An owner may be fenced by others only."""

import pytest

from tests.sim.checks import Violated, check_fenced

_BY_NODE = "t: another owner has it: process 1 on owner-0 (/mledger/owners/t); this owner has stopped"
_BY_RECORD = "t: its record is at version 6, not at 4: another owner wrote it; this owner has stopped"
_BY_CURSOR = "t: the record of cursor one was written by another owner; this owner has stopped"


@pytest.mark.parametrize("error", [_BY_RECORD, _BY_CURSOR])
def test_another_owner_that_only_opens_the_topic_fences_nobody_by_its_record(error):
    with pytest.raises(Violated, match="owner-1 was fenced by nobody: t: "):
        check_fenced("owner-1", error, claimed=True, wrote=False)


@pytest.mark.parametrize("error", [_BY_RECORD, _BY_CURSOR])
def test_another_owner_that_wrote_the_record_fences(error):
    check_fenced("owner-1", error, claimed=False, wrote=True)


def test_the_owner_node_fences_only_when_another_owner_may_have_claimed_it():
    check_fenced("owner-1", _BY_NODE, claimed=True, wrote=False)
    with pytest.raises(Violated):
        check_fenced("owner-1", _BY_NODE, claimed=False, wrote=True)


def test_the_end_of_its_session_fences_an_owner():
    check_fenced("owner-1", "t: its session with the metadata store has ended", claimed=False, wrote=False)
