"""What is asked for, how it is split, and how fast it may be read."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.errors import InvalidMetadataUrl
from mledger.metastore.records.paths import LEDGERS
from mledger.snapshot.source.live import BYTES_AT_ONCE, NODES_AT_ONCE, next_step, nodes_at_once
from mledger.snapshot.source.options import OPTIONS, parse_options
from mledger.snapshot.source.splits import split_folders, split_topics
from mledger.snapshot.tables.ledgers import entries_held
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.row_builder import TABLES, Assembly, kinds_of
from mledger.snapshot.tables.scope import TopicScope, parse_scope
from mledger.snapshot.zookeeper_files.errors import InvalidOption, UnknownColumn, UnknownTable

ZK = {"metadata": "zk://127.0.0.1:2181/pulsar"}
FILES = {"metadata": "file:///backup"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/managed-ledgers/t/n/persistent/topic", NodeKind.TOPIC),
        ("/managed-ledgers/t/c/n/persistent/topic", NodeKind.TOPIC),
        ("/managed-ledgers/t/n/persistent/topic/cursor", NodeKind.CURSOR),
        ("/managed-ledgers/t/c/n/persistent/topic/cursor", NodeKind.CURSOR),
        ("/managed-ledgers/t/n/persistent/persistent/topic", NodeKind.CURSOR),
        ("/managed-ledgers/t/n/persistent", None),
        ("/managed-ledgers/t/n/persistent/topic/cursor/below", None),
        ("/managed-ledgers/t/n/non-persistent/topic", None),
        ("/managed-ledgers", None),
        ("/ledgers/00/0000/L0001", NodeKind.LEDGER),
        ("/ledgers/000/0000/0042/9496/L7296", NodeKind.LEDGER),
        ("/ledgers/00/0000/stray", NodeKind.LEDGER),
        ("/ledgers/L1", NodeKind.LEDGER),
        ("/ledgers/00/0000", None),
        ("/ledgers/idgen/ID-0000000001", None),
        ("/ledgers/cookies/b:1", NodeKind.COOKIE),
        ("/ledgers/available/b:1", NodeKind.BOOKIE),
        ("/ledgers/available/readonly", None),
        ("/ledgers/available/readonly/b:1", NodeKind.READ_ONLY_BOOKIE),
        ("/ledgers/underreplication/ledgers/0000/0000/0000/0001/urL0000000001", NodeKind.UNDERREPLICATED),
        ("/ledgers/underreplication/locks/urL0000000001", None),
        ("/ledgersother/00/0000/L0001", None),
        ("/admin/partitioned-topics/t/n/persistent/topic", NodeKind.PARTITIONED_TOPIC),
        ("/admin/partitioned-topics/t/c/n/non-persistent/topic", NodeKind.PARTITIONED_TOPIC),
        ("/admin/policies/t/n", None),
        ("/bookies", NodeKind.RACKS),
        ("/", None),
    ],
)
def test_a_path_says_what_a_node_is(path, kind):
    assert kind_of(path, LEDGERS) is kind


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "metadata is missing"),
        ({**ZK, "tenent": "t"}, "no option tenent"),
        ({**ZK, "state": "guessed"}, "stored or recovered"),
        ({**ZK, "zxid": "0x1"}, "for ZooKeeper's own files"),
        ({**FILES, "state": "recovered"}, "for a running cluster"),
        ({**FILES, "rate": "100"}, "for a running cluster"),
        ({**FILES, "zxid": "0x1", "time": "5"}, "not both"),
        ({**FILES, "zxid": "later"}, "0x"),
        ({**FILES, "time": "yesterday"}, "2026-01-31"),
        ({**FILES, "chroot": "pulsar"}, "chroot"),
        ({**FILES, "verifyDigests": "maybe"}, "true or false"),
        ({**ZK, "rate": "0"}, "above 0"),
        ({**ZK, "partitions": "none"}, "whole number"),
        ({**ZK, "namespace": "default"}, "tenant/namespace"),
        ({**ZK, "topic": "non-persistent://t/n/x"}, "non-persistent"),
        ({"metadata": "file://host/path"}, None),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    if words is None:
        assert parse_options(options).files
        return
    with pytest.raises(InvalidOption, match=words) as raised:
        parse_options(options)
    assert "\n" not in str(raised.value)


def test_a_store_that_is_not_known_is_refused():
    with pytest.raises(InvalidMetadataUrl, match="etcd"):
        parse_options({"metadata": "etcd://127.0.0.1"})


def test_option_names_are_read_in_any_case():
    assert parse_options({"METADATA": FILES["metadata"], "VERIFYdigests": "no"}).verify_digests is False


def test_a_password_is_not_shown():
    assert "secret" not in repr(parse_options({**ZK, "password": "secret"}))


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31 12:00", "1769860800000"]
)
def test_times_are_in_utc_where_they_do_not_say(text):
    assert parse_options({**FILES, "time": text}).time_ms == 1769860800000


def test_every_option_is_documented_and_pickles():
    assert all(OPTIONS.values())
    options = parse_options({**ZK, "topic": "t/n/x"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_tables_and_columns_that_are_not_there_are_named():
    with pytest.raises(UnknownTable, match=r"'topic'.*topics"):
        kinds_of(["topic"])
    with pytest.raises(UnknownColumn, match="nothing"):
        Assembly({"topics": ["nothing"]}, TopicScope(), LEDGERS)


def test_every_column_is_documented_and_has_a_type_of_sql():
    for table in TABLES.values():
        assert table.doc
        assert len({column.name for column in table.columns}) == len(table.columns)
        assert all(column.doc and column.sql_type for column in table.columns)


def test_a_scope_is_narrowed_by_both():
    scope = parse_scope("t", None, None).narrowed(namespaces=frozenset(["t/a", "t/b"]))
    assert scope.admits_namespace("t/a")
    assert not scope.narrowed(tenants=frozenset(["u"])).admits_tenant("t")


def test_a_topic_is_wanted_with_its_partitions():
    scope = parse_scope(None, None, "persistent://t/n/x")
    wanted = [
        name
        for name in ("x", "x-partition-0", "x-partition-10", "y", "x-partition-y")
        if scope.admits_node("t/n/persistent", name)
    ]
    assert wanted == ["x", "x-partition-0", "x-partition-10"]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("nopqrstu"))),
    st.integers(1, 9) | st.none(),
)
def test_topics_are_split_without_gap_or_overlap(names, count):
    folders = [(folder, sorted(found)) for folder, found in names.items()]
    shares = split_topics(folders, count)
    total = sum(map(len, names.values()))
    assert len(shares) <= max(1, min(count or 1, total))
    found = [
        (part.folder, name)
        for share in shares
        for part in share.ranges
        for name in sorted(names[part.folder])
        if part.first <= name <= part.last
    ]
    assert sorted(found) == sorted((folder, name) for folder, some in folders for name in some)


@given(st.lists(st.text("0123456789", min_size=1), unique=True), st.integers(1, 9) | st.none())
def test_folders_are_split_without_gap_or_overlap(folders, count):
    shares = split_folders(folders, count)
    assert sorted(folder for share in shares for folder in share.folders) == sorted(folders)
    assert all(share.folders for share in shares)


@given(st.integers(0, 50), st.integers(-1, 60), st.integers(1, 7), st.data())
def test_entries_held_are_those_whose_write_set_has_the_member(first, length, ensemble_size, data):
    write_quorum = data.draw(st.integers(1, ensemble_size))
    last = first + length - 1
    for member in range(ensemble_size):
        holding = [
            entry
            for entry in range(first, last + 1)
            if member in [(entry + copy) % ensemble_size for copy in range(write_quorum)]
        ]
        assert entries_held(first, last, member, ensemble_size, write_quorum) == len(holding)


def test_requests_are_small_where_a_rate_is_given():
    assert nodes_at_once(100.0) == 2
    assert nodes_at_once(None) == NODES_AT_ONCE
    assert nodes_at_once(1e9, 20) == 20


def test_requests_grow_and_shrink_with_the_nodes_that_come():
    def some(count, size):
        return [(NodeKind.CURSOR, FoundNode("/c", bytes(size), 0, 0, 0, 0))] * count

    assert next_step([]) == NODES_AT_ONCE
    assert next_step(some(256, 100)) == NODES_AT_ONCE
    assert next_step(some(256, 1 << 20)) == BYTES_AT_ONCE >> 20
    assert next_step(some(1, BYTES_AT_ONCE * 2)) == 1
