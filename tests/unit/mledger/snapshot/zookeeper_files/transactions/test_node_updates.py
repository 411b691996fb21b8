"""What became of nodes is known from transactions alone, as far as they say it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.jute import decode_transaction
from mledger.snapshot.zookeeper_files.transactions.node_updates import NodeUpdate, NodeUpdates, WrittenData
from tests.support.zookeeper.zookeeper_files import transaction_bytes
from tests.support.zookeeper.zookeeper_history import ZooKeeperHistory
from tests.support.zookeeper.zookeeper_tree import OPEN

TIME = 7000


def create(path, data=b"new"):
    return ("create", path, data, OPEN, None, 1)


def updates(*operations):
    found = NodeUpdates(lambda path: path != "/other")
    for zxid, operation in enumerate(operations, 5):
        found.apply(decode_transaction(transaction_bytes(zxid, operation, time=TIME + zxid)))
    return found.nodes


def test_a_written_node_has_its_data_and_keeps_its_creation_open():
    assert updates(("set", "/a", b"x", 4)) == {"/a": NodeUpdate(before=True, written=WrittenData(b"x", 4, TIME + 5, 5))}


def test_a_created_node_is_known_wholly():
    node = updates(create("/a"), create("/a/b"))["/a"]
    assert node == NodeUpdate(False, True, (TIME + 5, 5), WrittenData(b"new", 0, TIME + 5, 5), children=1)


def test_a_deleted_node_is_gone():
    node = updates(("delete", "/a"))["/a"]
    assert (node.before, node.there, node.replaced) == (True, False, True)


def test_a_node_created_again_begins_anew():
    node = updates(("delete", "/a"), create("/a"), create("/a/b"))["/a"]
    assert (node.before, node.there, node.created, node.children) == (True, True, (TIME + 6, 6), 1)


def test_a_node_that_only_gains_and_loses_children_is_not_replaced():
    node = updates(create("/a/b"), ("delete", "/a/c"), create("/a/d"))["/a"]
    assert (node.children, node.replaced) == (1, False)


def test_a_failed_multi_changes_nothing():
    assert updates(("multi", [("set", "/a", b"x", 1), ("error", -101)])) == {}


def test_the_operations_of_a_multi_follow_one_another():
    node = updates(("multi", [create("/a"), ("set", "/a", b"x", 1)]))["/a"]
    assert node.written == WrittenData(b"x", 1, TIME + 5, 5)


def test_a_closed_session_removes_the_nodes_that_it_lists():
    nodes = updates(("close", ["/a/b"]))
    assert (nodes["/a/b"].before, nodes["/a/b"].there, nodes["/a"].children) == (None, False, -1)


def test_a_closed_session_does_not_remove_a_node_twice():
    assert updates(("delete", "/a/b"), ("close", ["/a/b"]))["/a"].children == -1


def test_a_closed_session_without_a_list_is_refused():
    with pytest.raises(LogDoesNotFit, match=r"0x5 ends a session and does not list its nodes.*export fully"):
        updates(("close", None))


def test_a_node_created_twice_is_refused():
    with pytest.raises(LogDoesNotFit, match="0x6 creates /a, which exists already"):
        updates(create("/a"), create("/a"))


def test_a_change_of_a_deleted_node_is_refused():
    with pytest.raises(LogDoesNotFit, match="0x6 changes /a, which does not exist"):
        updates(("delete", "/a"), ("set", "/a", b"", 1))


def test_nodes_that_are_not_wanted_are_left_out():
    assert "/other" not in updates(create("/other"), create("/other/a"))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_with_the_tree_before_they_give_the_tree_after(seed):
    server = ZooKeeperHistory(random.Random(seed))
    server.steps(20)
    before, at = server.states[server.tree.zxid], server.tree.zxid
    server.steps(20)
    after = server.states[server.tree.zxid]
    found = NodeUpdates(lambda _: True)
    for zxid, record in server.records.items():
        if zxid > at:
            found.apply(decode_transaction(record))
    assert {path for path in before if path not in found.nodes or found.nodes[path].there} | {
        path for path, update in found.nodes.items() if update.there
    } == set(after)
    for path, update in found.nodes.items():
        assert update.before in (None, path in before)
        if update.there:
            _check(update, before.get(path), after[path])


def _check(update, old, new):
    data, czxid, mzxid, ctime, mtime, version = new[:6]
    if update.written is not None:
        assert update.written == WrittenData(data or b"", version, mtime, mzxid)
    if update.created is not None:
        assert update.created == (ctime, czxid)
        assert update.children == new[-1]
    else:
        assert update.children == new[-1] - old[-1]
