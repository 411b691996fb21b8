"""multiRead's bytes, and how many nodes it asks for at once."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.store import Node, Stat
from mledger.metastore.zookeeper.multiread import (
    FIRST_NODES,
    GET_CHILDREN,
    GET_DATA,
    MAX_NODES,
    REPLY_BYTES,
    REQUEST_BYTES,
    REQUESTS_AT_ONCE,
    MultiRead,
    MultiReadReply,
    plan_requests,
    plan_round,
)

END = struct.pack("!iBi", -1, 1, -1)
STAT = struct.pack("!qqqqiiiqiiq", 1, 2, 1000, 2000, 3, 4, 5, 6, 4, 7, 8)


def result(kind, body):
    return struct.pack("!iBi", kind, 0, 0) + body


def failed(code):
    return struct.pack("!iBi", -1, 0, code) + struct.pack("!i", code)


def test_a_request_is_a_sequence_of_operations():
    assert MultiRead(GET_DATA, ["/a", "/ü"]).serialize() == (
        struct.pack("!iBi", 4, 0, -1)
        + b"\0\0\0\x02/a\0"
        + struct.pack("!iBi", 4, 0, -1)
        + b"\0\0\0\x03/\xc3\xbc\0"
        + END
    )


def test_a_reply_has_nodes_none_and_refusals_in_order():
    reply = (
        b"header" + result(4, b"\0\0\0\x04data" + STAT) + failed(-101) + result(4, b"\xff" * 4 + STAT) + failed(-102)
    )
    parsed = MultiRead.deserialize(reply + END, 6)
    stat = Stat(version=3, created_ms=1000, modified_ms=2000, num_children=7, ephemeral_owner=6, czxid=1, mzxid=2)
    assert parsed.values == [Node(b"data", stat), None, Node(b"", stat), None]
    assert parsed.refused == [(3, -102)]
    assert parsed.size == len(reply + END)


def test_a_reply_of_children_is_sorted():
    names = struct.pack("!i", 2) + b"\0\0\0\x01b" + b"\0\0\0\x02\xc3\xbc"
    assert MultiRead.deserialize(result(8, names) + result(8, b"\0\0\0\0") + END, 0).values == [["b", "ü"], []]
    assert MultiRead(GET_CHILDREN, []).serialize() == END


@given(st.lists(st.text(min_size=1, max_size=10), max_size=50), st.integers(1, 10))
def test_requests_hold_every_path_once_in_order(paths, nodes):
    requests = list(plan_requests(paths, nodes))
    assert [path for request in requests for path in request] == paths
    assert all(1 <= len(request) <= nodes for request in requests)


def test_requests_of_long_paths_stay_below_the_servers_limit():
    paths = ["/" + "ü" * 50_000] * 9
    requests = list(plan_requests(paths, MAX_NODES))
    assert len(requests) > 1
    assert all(len(MultiRead(GET_DATA, request).serialize()) <= REQUEST_BYTES for request in requests)


def test_reading_begins_with_a_few_nodes():
    assert plan_round(0, []) == (FIRST_NODES, FIRST_NODES)


@pytest.mark.parametrize(("before", "nodes"), [(1, MAX_NODES), (REPLY_BYTES // 10, 10), (REPLY_BYTES * 2, 1)])
def test_reading_begins_with_one_request_if_the_call_before_shows_the_size(before, nodes):
    assert plan_round(0, [], before) == (nodes, nodes)


@pytest.mark.parametrize(("size", "nodes"), [(100, MAX_NODES), (REPLY_BYTES // 10, 10), (REPLY_BYTES * 2, 1)])
def test_a_round_follows_from_the_largest_nodes_of_the_one_before(size, nodes):
    replies = [MultiReadReply([None] * 5, [], 5), MultiReadReply([None] * 5, [], 5 * size)]
    assert plan_round(100_000, replies) == (nodes * REQUESTS_AT_ONCE, nodes)


@given(st.integers(1, 10_000), st.lists(st.integers(1, 5_000_000), min_size=1, max_size=4))
def test_a_round_always_advances_and_grows_at_most_eightfold(found, sizes):
    count, nodes = plan_round(found, [MultiReadReply([None], [], size) for size in sizes])
    assert 1 <= nodes <= MAX_NODES
    assert 1 <= count <= 8 * found
