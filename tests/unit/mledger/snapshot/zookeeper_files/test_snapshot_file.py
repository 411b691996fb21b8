"""Snapshot files: what was written is read, and no changed or missing byte passes unnoticed."""

import random

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from mledger.snapshot import CorruptFile, TruncatedFile
from mledger.snapshot.zookeeper_files.jute import OPEN_ACL, UNKNOWN_ACL, parent_of
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile, Trailer, snapshot_zxid
from tests.support.zookeeper.zookeeper_files import SnapshotWriter, compressed
from tests.support.zookeeper.zookeeper_history import MemoryFiles, ZooKeeperHistory

ENDINGS = ("", ".gz", ".snappy")
ACL = ((31, "world", "anyone"),)
STAT = (1, 2, 3, 4, 5, 6, 7, 8, 9)


def snapshot(data, name="snapshot.5"):
    return SnapshotFile(MemoryFiles({name: data}), name)


def one_node(*, acl=1, digest=(5, 99), last_zxid=6):
    writer = SnapshotWriter({7: 4000}, {1: ACL})
    writer.node("/", b"data", acl, STAT)
    return writer.finish(digest=digest, last_zxid=last_zxid)


numbers = st.integers(-(1 << 63), (1 << 63) - 1)
small = st.integers(-(1 << 31), (1 << 31) - 1)
stats = st.tuples(numbers, numbers, numbers, numbers, small, small, small, numbers, numbers)
names = st.text(st.characters(blacklist_characters="/", blacklist_categories=["Cs"]), min_size=1, max_size=9)
contents = st.none() | st.binary(max_size=40) | st.just(b"long" * 400_000)
nodes = st.recursive(st.builds(dict), lambda inner: st.dictionaries(names, inner, max_size=4), max_leaves=25)


@st.composite
def trees(draw):
    """Nodes in pre-order: (path, data, list number, stat)."""
    found = []

    def walk(path, children):
        found.append((path, draw(contents), draw(st.sampled_from((-1, 1, 2))), draw(stats)))
        for name, below in children.items():
            walk(path.rstrip("/") + "/" + name, below)

    walk("/", draw(nodes))
    return found


@settings(max_examples=60, deadline=None)
@given(trees(), st.dictionaries(numbers, small, max_size=3), st.sampled_from(ENDINGS))
def test_what_was_written_is_read(tree, sessions, ending):
    acls = {1: ACL, 2: ((1, "ip", "::1"), (2, "digest", "é:=="))}
    writer = SnapshotWriter(sessions, acls)
    for node in tree:
        writer.node(*node)
    file = snapshot(compressed(writer.finish(digest=(5, -1), last_zxid=6), ending), "snapshot.5" + ending)
    read = {node.path: node for node in file.nodes()}
    acls[-1] = OPEN_ACL
    for path, data, acl, stat in tree:
        node = read.pop(path)
        assert (node.data, node[2:11], node.acl) == (data, stat, acls[acl])
        assert node.num_children == sum(parent_of(other) == path for other, *_ in tree if other != "/")
    assert read == {}
    assert file.sessions == sessions
    assert file.trailer == file.tail()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1 << 32), st.sampled_from([(b"/a",), (b"/b", b"/a/a"), (b"/\xc3\xbc/",)]), st.sampled_from(ENDINGS)
)
def test_selected_nodes_are_those_with_the_prefixes(seed, prefixes, ending):
    server = ZooKeeperHistory(random.Random(seed))
    server.steps(30)
    name, _ = server.snapshot(most_between=0)
    read = snapshot(compressed(server.snapshots[name], ending), name + ending)
    chosen = [node[:11] for node in read.nodes() if node.path.encode().startswith(prefixes)]
    assert sorted(read.selected(prefixes), key=lambda fields: fields[0]) == sorted(chosen)


def test_selecting_notices_a_file_that_is_cut_or_changed():
    data = one_node()
    with pytest.raises(TruncatedFile):
        list(snapshot(data[:60]).selected((b"/x",)))
    at = data.index(b"data")
    with pytest.raises(CorruptFile, match="checksum"):
        list(snapshot(data[:at] + b"atad" + data[at + 4 :]).selected((b"/x",)))


@pytest.mark.parametrize("digest", [(5, 99), None])
@pytest.mark.parametrize("last_zxid", [6, None, 0x12F])
def test_each_form_of_the_end_is_read_from_the_end_and_from_the_start(digest, last_zxid):
    file = snapshot(one_node(digest=digest, last_zxid=last_zxid))
    assert len(list(file.nodes())) == 1
    assert (file.trailer.digest_zxid, file.trailer.last_zxid) == (digest and digest[0], last_zxid)
    assert file.tail() == file.trailer


def test_the_zxid_up_to_which_it_was_written_is_that_of_its_digest():
    assert snapshot(one_node(digest=(9, 1))).tail().settled(5) == 9
    assert snapshot(one_node(digest=(2, 1))).tail().settled(5) == 5, "a new leader's, of the epoch before"
    assert snapshot(one_node(digest=None, last_zxid=8)).tail().settled(5) == 8
    assert snapshot(one_node(digest=(0, 0), last_zxid=None)).tail().settled(5) == 5
    assert Trailer().settled(5) is None


def small_snapshot():
    server = ZooKeeperHistory(random.Random(11))
    server.steps(60)
    name, _ = server.snapshot(most_between=1)
    return name, server.snapshots[name]


NAME, WHOLE = small_snapshot()


def read_all(data, ending=""):
    file = snapshot(data, NAME + ending)
    return list(file.nodes()), file.sessions, file.trailer


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ENDINGS), st.data())
def test_a_changed_byte_never_gives_another_tree(ending, data):
    whole = compressed(WHOLE, ending)
    at = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255))
    assume(whole[at] != value)
    changed = whole[:at] + bytes([value]) + whole[at + 1 :]
    try:
        assert read_all(changed, ending) == read_all(whole, ending)
    except (CorruptFile, TruncatedFile):
        event("told")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_cut_anywhere_is_reported_or_reads_the_same(ending):
    whole = compressed(WHOLE, ending)
    nodes, sessions, _ = read_all(whole, ending)
    told = 0
    for length in range(0, len(whole), 7 if len(whole) > 2000 else 1):
        try:
            assert read_all(whole[:length], ending)[:2] == (nodes, sessions)
        except TruncatedFile:
            told += 1
    assert told


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_truncated_file_is_noticed_by_its_end(ending):
    whole = compressed(WHOLE, ending)
    with pytest.raises(TruncatedFile, match="truncated"):
        snapshot(whole[:-20], NAME + ending).tail()


def test_bytes_after_the_end_are_refused():
    with pytest.raises(CorruptFile, match="more bytes follow"):
        read_all(WHOLE + WHOLE)


def test_another_kind_of_file_is_refused():
    with pytest.raises(CorruptFile, match="unlike ZooKeeper's snapshots"):
        read_all(b"PAR1" + bytes(100))
    with pytest.raises(CorruptFile, match="not begin with snappy-java's header"):
        read_all(bytes(100), ".snappy")
    with pytest.raises(CorruptFile, match=r"snapshot\.5\.gz is corrupt"):
        list(snapshot(bytes(100), "snapshot.5.gz").nodes())


def test_a_renamed_snapshot_is_refused():
    with pytest.raises(CorruptFile, match="its name says zxid 0x50, but its content 0x6: it was renamed"):
        list(snapshot(one_node(), "snapshot.50").nodes())


def test_a_node_apart_from_its_parent_is_refused():
    writer = SnapshotWriter({}, {1: ACL})
    for path in ("/", "/a", "/b", "/a/late"):
        writer.node(path, b"", 1, STAT)
    with pytest.raises(CorruptFile, match="/a/late does not follow its parent"):
        list(snapshot(writer.finish()).nodes())


def test_a_list_created_after_the_table_of_lists_is_unknown():
    (node,) = snapshot(one_node(acl=17)).nodes()
    assert node.acl is UNKNOWN_ACL


def test_gzip_in_several_members_is_read():
    data = one_node()
    members = compressed(data[:50], ".gz") + compressed(data[50:], ".gz")
    assert list(snapshot(members, "snapshot.5.gz").nodes()) == list(snapshot(data).nodes())


def test_consecutive_snappy_streams_are_read():
    data = one_node()
    streams = compressed(data[:50], ".snappy") + compressed(data[50:], ".snappy")
    assert list(snapshot(streams, "snapshot.5.snappy").nodes()) == list(snapshot(data).nodes())


def test_a_snappy_block_cannot_allocate_unlimited_memory():
    bomb = compressed(b"", ".snappy") + (6).to_bytes(4, "big") + b"\xff\xff\xff\xff\x0f\x00"
    with pytest.raises(CorruptFile, match="claims 4294967295 bytes"):
        list(snapshot(bomb, "snapshot.5.snappy").nodes())


@pytest.mark.parametrize("name", ["snapshot.5", "snapshot.0.gz", "snapshot.ab00000001.snappy"])
def test_names_of_snapshots(name):
    assert snapshot_zxid(name) == int(name.split(".")[1], 16)


@pytest.mark.parametrize(
    "name", ["snapshot", "snapshot.5.tmp", "snapshot.x", "log.5", "snapshot.5.gz.bak", "currentEpoch"]
)
def test_names_of_other_files(name):
    assert snapshot_zxid(name) is None
