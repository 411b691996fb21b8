"""The request for a persistent recursive watch, in ZooKeeper's own layout."""

import struct

from kazoo.exceptions import MarshallingError, NoAuthError, UnimplementedError

from mledger.metastore.errors import MetadataError
from mledger.metastore.zookeeper.tree_watch import AddWatch, is_refused


def test_the_request_is_the_path_and_the_mode():
    assert AddWatch("/a/ü").serialize() == struct.pack("!i", 5) + "/a/ü".encode() + struct.pack("!i", 1)
    assert AddWatch.type == 106


def test_servers_without_it_are_told_from_other_errors():
    unknown = MetadataError("answered")
    unknown.__cause__ = MarshallingError()
    other = MetadataError("answered")
    other.__cause__ = NoAuthError()
    assert is_refused(UnimplementedError())
    assert is_refused(unknown)
    assert not is_refused(other)
    assert not is_refused(TimeoutError())
