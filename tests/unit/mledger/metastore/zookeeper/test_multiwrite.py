"""A multi's bytes: those that kazoo would send, and the results that kazoo would read."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import BadVersionError, RolledBackError
from kazoo.protocol import serialization as kazoo
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from mledger.metastore.store import Check, Create, Delete, Put
from mledger.metastore.zookeeper.multiwrite import MultiWrite, write_acl, write_operation

ACLS = [*OPEN_ACL_UNSAFE, make_digest_acl("user", "secret", read=True)]
END = struct.pack("!iBi", -1, 1, -1)
STAT = struct.pack("!qqqqiiiqiiq", 1, 2, 1000, 2000, 3, 4, 5, 6, 4, 7, 8)

paths = st.text("abcü/", min_size=1, max_size=8).map(lambda text: f"/{text}")
versions = st.integers(-1, 2**31 - 1)
operations = st.one_of(
    st.builds(Create, paths, st.binary(max_size=9), st.booleans(), st.booleans()),
    st.builds(Put, paths, st.binary(max_size=9), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


def by_kazoo(operation):
    """The operation in kazoo's terms."""
    match operation:
        case Create(path, data, ephemeral, sequential):
            return kazoo.Create(path, data, ACLS, ephemeral + 2 * sequential)
        case Put(path, data, version):
            return kazoo.SetData(path, data, version)
        case Delete(path, version):
            return kazoo.Delete(path, version)
        case Check(path, version):
            return kazoo.CheckVersion(path, version)


@given(st.lists(operations, max_size=5))
def test_the_bytes_are_those_that_kazoo_writes(wanted):
    acl = write_acl(ACLS)
    ours = MultiWrite(b"".join(write_operation(each, each.path, acl) for each in wanted)).serialize()
    assert ours == bytes(kazoo.Transaction([by_kazoo(each) for each in wanted]).serialize())


def result(kind, body=b""):
    return struct.pack("!iBi", kind, 0, 0) + body


def test_a_reply_has_paths_and_versions_in_order():
    reply = result(1, b"\0\0\0\x03/\xc3\xbc") + result(2) + result(5, STAT) + result(13)
    assert MultiWrite.deserialize(b"header" + reply + END, 6) == ["/ü", None, 3, None]


def test_a_refusal_has_an_error_for_each_operation():
    failed = [struct.pack("!iBi", -1, 0, code) + struct.pack("!i", code) for code in (0, -103)]
    rolled_back, conflict = MultiWrite.deserialize(b"".join(failed) + END, 0)
    assert isinstance(rolled_back, RolledBackError)
    assert isinstance(conflict, BadVersionError)
