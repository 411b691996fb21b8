"""What a watch concludes from two reads of a node."""

import pytest

from mledger.metastore.store import NodeChange
from mledger.metastore.zookeeper.watch import plan_changes


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (None, None, []),
        ((1, 1), (1, 1), []),
        (None, (1, 1), [NodeChange.CREATED]),
        ((1, 1), None, [NodeChange.DELETED]),
        ((1, 1), (1, 2), [NodeChange.CHANGED]),
        ((1, 1), (3, 3), [NodeChange.DELETED, NodeChange.CREATED]),
    ],
)
def test_two_reads_of_a_node_tell_what_happened(before, after, changes):
    assert plan_changes(before, after, NodeChange.CHANGED) == changes
