"""The quorums of new ledgers where the settings leave them open."""

import pytest

from mledger.admin.policies.quorums import plan_quorums
from mledger.config import ManagedLedgerConfig
from mledger.metastore.cluster.policies import Persistence
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment

CONFIG = ManagedLedgerConfig(max_entries_per_ledger=7)
LAST = LedgerMetadata(3, 3, 2, (Segment(0, ("a:1", "b:1", "c:1")),))


@pytest.mark.parametrize(
    ("policy", "last", "expected"),
    [
        (Persistence(5, 3, 2), LAST, (5, 3, 2)),
        (None, LAST, (3, 3, 2)),
        (None, None, (2, 2, 2)),
    ],
)
def test_policies_come_before_the_last_ledger_and_that_before_the_default(policy, last, expected) -> None:
    found = plan_quorums(CONFIG, policy, last)
    assert (found.ensemble_size, found.write_quorum_size, found.ack_quorum_size) == expected
    assert found.max_entries_per_ledger == 7
