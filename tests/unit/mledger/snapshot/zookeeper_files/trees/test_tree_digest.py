"""The digest of a tree: what it covers, in whose locale, and where it is refused."""

import pytest

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.jute import OPEN_ACL, TransactionDigest, Znode
from mledger.snapshot.zookeeper_files.trees.tree_digest import TreeDigest


def node(path):
    return Znode(path, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, OPEN_ACL, 0)


def test_a_digest_that_a_server_made_of_ascii_paths_matches_too():
    in_utf8, in_ascii = TreeDigest(), TreeDigest()
    in_utf8.add(node("/caf\u00e9"))
    in_ascii.add(node("/caf?"))
    assert in_utf8.agrees(TransactionDigest(2, in_utf8.value))
    assert in_utf8.agrees(TransactionDigest(2, in_ascii.value))
    assert not in_utf8.agrees(TransactionDigest(2, in_utf8.value + 1))


def test_a_digest_of_another_version_cannot_be_compared():
    assert TreeDigest().agrees(TransactionDigest(3, 12345))


def test_zookeeper_s_own_nodes_are_left_out_of_the_digest():
    digest = TreeDigest()
    digest.add(node("/zookeeper/quota"))
    assert digest.value == 0
    digest.add(node("/zookeeper"))
    assert digest.value != 0
    digest.remove(node("/zookeeper"))
    assert digest.value == 0


def test_a_digest_that_differs_names_its_transaction():
    digest = TreeDigest()
    digest.add(node("/a"))
    digest.check(TransactionDigest(2, digest.value), 0x1F)
    with pytest.raises(LogDoesNotFit, match=r"after zxid 0x1f the tree's digest is .* but ZooKeeper wrote 7"):
        digest.check(TransactionDigest(2, 7), 0x1F)
