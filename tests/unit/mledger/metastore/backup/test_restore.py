"""What a restore does with nodes that the backup lacks."""

import pytest

from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.backup.restore import RestoreAction, plan_others

LEDGER, TOPIC = "/ledgers/00/0000/L0004", "/managed-ledgers/t/n/persistent/x"
OTHERS = [BackupNode(path, b"", 0) for path in ("/ledgers/cookies/127.0.0.1:1", LEDGER, TOPIC)]


@pytest.mark.parametrize("apart", [False, True])
def test_ledgers_in_a_store_of_their_own_are_not_removed(apart):
    """They may be another cluster's, whose topics list them."""
    removed = [
        each.path for each in plan_others(OTHERS, remove=True, apart=apart) if each.action is RestoreAction.REMOVE
    ]
    assert removed == ([TOPIC] if apart else [node.path for node in OTHERS])
