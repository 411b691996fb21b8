"""How many nodes one request to a live store asks for."""

from mledger.snapshot.source.live_nodes import BYTES_AT_ONCE, NODES_AT_ONCE, next_step, nodes_at_once
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import FoundNode


def test_requests_are_small_if_a_rate_is_given():
    assert nodes_at_once(100.0) == 2
    assert nodes_at_once(None) == NODES_AT_ONCE
    assert nodes_at_once(1e9, 20) == 20


def test_requests_grow_and_shrink_with_the_sizes_of_nodes():
    def some(count, size):
        return [(NodeKind.CURSOR, FoundNode("/c", bytes(size), 0, 0, 0, 0))] * count

    assert next_step([]) == NODES_AT_ONCE
    assert next_step(some(256, 100)) == NODES_AT_ONCE
    assert next_step(some(256, 1 << 20)) == BYTES_AT_ONCE >> 20
    assert next_step(some(1, BYTES_AT_ONCE * 2)) == 1
