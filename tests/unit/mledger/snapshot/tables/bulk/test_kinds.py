"""Tables made from many nodes at once are those that each node decoded alone gives."""

import itertools
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.records.pb import MLDataFormats_pb2 as pb
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    BatchDeletion,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
)
from mledger.snapshot.tables.bulk import wire
from mledger.snapshot.tables.bulk.kinds import MOST_NODES, BulkNodes, read_bulk
from mledger.snapshot.tables.decoder import decode
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from mledger.snapshot.tables.records import FoundNode, UnreadableNode
from mledger.snapshot.tables.row_builder import TABLES, rows_of
from tests.support.recordings import golden

ALL = dict.fromkeys(TABLES)
ROWS = 1 << 30
SIDE_BY_SIDE = pytest.mark.parametrize("few", [0, wire.FEW], ids=["side by side", "one by one"])

longs = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.integers(-1, 300) | st.integers(-(1 << 39), 1 << 39) | longs
times = st.just(0) | st.integers(-(1 << 50), 1 << 50)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
positions = st.builds(Position, numbers, numbers)
stats = st.integers(0, 9)
TOPIC_NAMES = (
    "t/n/persistent/plain", "t/n/persistent/plain-partition-3", "t/n/persistent/r%C3%A9gion+1", "t/n/persistent/%zz",
    "t/n/segment/topic/0000-7fff-1", "t/c/n/persistent/old", "t/./persistent/x", "u/n/persistent/partition-0",
)  # fmt: skip


def lists(of, most=2):
    return st.lists(of, max_size=most).map(tuple)


def pairs(keys, values):
    return lists(st.tuples(keys, values))


offloads = st.builds(
    lambda uid, complete, name, moment, properties: OffloadContext(
        pb.OffloadContext(
            uidMsb=uid,
            uidLsb=7,
            complete=complete,
            timestamp=moment,
            driverMetadata=pb.OffloadDriverMetadata(
                name=name, properties=[pb.KeyValue(key=key, value=value) for key, value in properties]
            ),
        ).SerializeToString()
    ),
    st.none() | longs,
    st.booleans(),
    texts,
    times,
    pairs(texts, texts),
)
infos = st.builds(LedgerInfo, numbers, numbers, numbers, times, st.none() | offloads, pairs(texts, texts))
topics = st.builds(ManagedLedgerInfo, lists(infos), st.none() | positions, pairs(texts, texts))
cursors = st.builds(
    ManagedCursorInfo, st.just(-1) | numbers, st.none() | positions,
    lists(st.builds(PositionRange, positions, positions)),
    pairs(texts, longs), times, lists(st.builds(BatchDeletion, positions, lists(longs, 12))), pairs(texts, texts),
    st.none() | positions,
)  # fmt: skip


@st.composite
def metadata(draw):
    size = draw(st.integers(1, 5))
    write_quorum = draw(st.integers(1, size))
    starts = [0, *sorted(draw(st.sets(st.integers(1, 9) | st.integers(1, 1 << 40), max_size=2)))]
    bookies = st.sampled_from(["10.0.0.1:3181", "b-2:3181", "a:1"])
    closed = draw(st.booleans())
    keys = st.sampled_from(["application", "pulsar/managed-ledger", "pulsar/cursor", "é"])
    values = st.sampled_from([name.encode() for name in TOPIC_NAMES]) | st.binary(max_size=3)
    return LedgerMetadata(
        size,
        write_quorum,
        draw(st.integers(1, write_quorum)),
        tuple(Segment(start, tuple(draw(bookies) for _ in range(size))) for start in starts),
        LedgerState.CLOSED if closed else draw(st.sampled_from([LedgerState.OPEN, LedgerState.IN_RECOVERY])),
        draw(st.integers(-1, 99) | st.integers(-1, 1 << 50)) if closed else -1,
        draw(st.integers(0, 1 << 62)) if closed else 0,
        draw(st.none() | st.sampled_from(DigestType)),
        draw(st.none() | st.just(b"secret")),
        draw(st.just(-1) | times),
        draw(pairs(keys, values)),
        draw(longs),
        3,
    )


RECORDS = {
    NodeKind.TOPIC: (topics, encode_managed_ledger_info),
    NodeKind.CURSOR: (cursors, encode_managed_cursor_info),
    NodeKind.LEDGER: (metadata(), encode_ledger_metadata),
}
EACH = pytest.mark.parametrize("kind", RECORDS)
LEDGER_PATHS = ("/00/0000/L0017", "/21/4748/L3646", "/99/9999/L9999", "/000/0000/0042/9496/L7298", "/00/0000/x", "/L12")


def paths(kind):
    if kind is NodeKind.LEDGER:
        return st.sampled_from([LEDGERS + path for path in LEDGER_PATHS])
    topic = st.sampled_from([f"/managed-ledgers/{name}" for name in TOPIC_NAMES])
    return topic if kind is NodeKind.TOPIC else st.tuples(topic, st.sampled_from(["sub", "s%2Fb", "%z"])).map("/".join)


def nodes(kind, data):
    zxids = st.none() | st.integers(1, 1 << 40)
    return st.lists(st.builds(FoundNode, paths(kind), data, stats, times, times, stats, zxids, zxids), max_size=4)


def damaged(records):
    """Records cut off, changed in some byte, given fields that nobody knows, or twice the same fields."""
    places = st.integers(0, 200)
    return (
        records
        | st.builds(lambda data, at: data[:at], records, places)
        | st.builds(lambda data, at, junk: data[:at] + junk + data[at + len(junk) :], records, places, st.binary())
        | st.builds(bytes.__add__, records, st.sampled_from([b"\x98\x01\x05", b"\x70\x07", b"\x08\x03", b"\x12\x00"]))
        | st.builds(lambda data: data + data, records)
        | st.binary(max_size=30)
    )


def alone(kind, found):
    """The rows of nodes that are decoded one by one, by table."""
    rows = {}
    for node in found:
        record = decode(kind, node, LEDGERS)
        assert not isinstance(record, UnreadableNode), record
        for table, some in rows_of(record):
            rows.setdefault(table, []).extend(some)
    return {table: TABLES[table].batch(some) for table, some in rows.items() if some}


def assert_equal_to_alone(kind, found):
    """The nodes that are read in bulk give the rows that they give alone. Returns the others."""
    batches, unusual = read_bulk(kind, found, ALL, LEDGERS, ROWS)
    others = set(map(id, unusual))
    expected = alone(kind, [node for node in found if id(node) not in others])
    assert [table for table, _ in batches] == list(expected)
    for table, batch in batches:
        batch.validate(full=True)
        assert batch.schema == TABLES[table].schema
        for name in batch.schema.names:
            assert batch[name].equals(expected[table][name]), (table, name, batch[name], expected[table][name])
    return unusual


@EACH
@SIDE_BY_SIDE
@settings(max_examples=50)  # each has several records
@given(data=st.data())
def test_records_of_any_values_give_the_rows_that_they_give_alone(kind, few, data):
    records, encode = RECORDS[kind]
    found = data.draw(nodes(kind, records.map(encode)))
    with mock.patch.object(wire, "FEW", few):
        assert_equal_to_alone(kind, found)


@EACH
@SIDE_BY_SIDE
@settings(max_examples=50)  # each has several records
@given(data=st.data())
def test_damaged_records_are_left_out_or_give_the_rows_that_they_give_alone(kind, few, data):
    records, encode = RECORDS[kind]
    found = data.draw(nodes(kind, damaged(records.map(encode))))
    head = b"BookieMetadataFormatVersion\t3\n"
    if kind is NodeKind.LEDGER:
        found = [node for node in found if node.data.startswith(head)]
    with mock.patch.object(wire, "FEW", few):
        assert_equal_to_alone(kind, found)


@EACH
@SIDE_BY_SIDE
def test_recorded_nodes_give_the_rows_that_they_give_alone(kind, few):
    every = itertools.chain.from_iterable(
        map(golden.nodes, golden.files("znodes/*.json") + golden.files("behaviours/*.json"))
    )
    found = [
        FoundNode(node.path, node.data, node.version, 1, 2, node.num_children)
        for node in every
        if kind_of(node.path, LEDGERS) is kind
    ]
    bulk = BulkNodes(ALL, LEDGERS, ROWS, lambda *_: None)
    usual = [node for node in found if bulk.takes(kind, node)]
    with mock.patch.object(wire, "FEW", few):
        unusual = assert_equal_to_alone(kind, usual)
    assert len(usual) - len(unusual) > len(found) / 2


ORDINARY = {
    NodeKind.TOPIC: encode_managed_ledger_info(
        ManagedLedgerInfo((LedgerInfo(3, 10, 100, 1_000), LedgerInfo(4)), Position(3, 9), (("owner", "team-äß"),))
    ),
    NodeKind.CURSOR: encode_managed_cursor_info(
        ManagedCursorInfo(
            -1,
            Position(3, 9),
            (PositionRange(Position(3, 10), Position(3, 12)),),
            (("number", -1),),
            1_000,
            (BatchDeletion(Position(4, 1), (-2, 1)),),
            (("region", "eu-äß"),),
        )
    ),
    NodeKind.LEDGER: encode_ledger_metadata(
        LedgerMetadata(
            2,
            2,
            1,
            (Segment(0, ("a:1", "b:2")), Segment(7, ("a:1", "c:2"))),
            custom_metadata=(("pulsar/managed-ledger", b"t/n/persistent/plain"), ("component", b"managed-ledger")),
        )
    ),
}


def ordinary(kind, number=0):
    path = {
        NodeKind.TOPIC: f"/managed-ledgers/t/n/persistent/topic-{number}",
        NodeKind.CURSOR: f"/managed-ledgers/t/n/persistent/topic/cursor-{number}",
        NodeKind.LEDGER: f"{LEDGERS}/00/0001/L{number:04d}",
    }[kind]
    return FoundNode(path, ORDINARY[kind], 1, 2, 3, 4, 5, 6)


@EACH
@SIDE_BY_SIDE
def test_ordinary_records_are_all_read_in_bulk(kind, few):
    found = [ordinary(kind, number) for number in range(5)]
    with mock.patch.object(wire, "FEW", few):
        assert assert_equal_to_alone(kind, found) == []


@EACH
def test_an_unusual_record_does_not_keep_the_others_from_being_read_in_bulk(kind):
    found = [ordinary(kind, number) for number in range(50)]
    found[20] = found[20]._replace(data=found[20].data + b"\x98\x01\x05")
    assert assert_equal_to_alone(kind, found) == [found[20]]


@EACH
def test_only_the_wanted_tables_and_columns_are_made(kind):
    table = {NodeKind.TOPIC: "topics", NodeKind.CURSOR: "cursors", NodeKind.LEDGER: "ledgers"}[kind]
    batches, _ = read_bulk(kind, [ordinary(kind)], {table: ["modified", "version"]}, LEDGERS, ROWS)
    assert [(name, batch.schema.names, batch.num_rows) for name, batch in batches] == [
        (table, ["modified", "version"], 1)
    ]
    (only,), _ = read_bulk(kind, [ordinary(kind), ordinary(kind)], {table: []}, LEDGERS, ROWS)
    assert only[1].num_rows == 2


def test_a_batch_has_no_more_rows_than_asked_for():
    batches, _ = read_bulk(NodeKind.LEDGER, [ordinary(NodeKind.LEDGER)], {"ensembles": None}, LEDGERS, 3)
    assert [batch.num_rows for _, batch in batches] == [3, 1]
    whole = pa.Table.from_batches([batch for _, batch in batches])
    assert whole["bookie_id"].to_pylist() == ["a:1", "b:2", "a:1", "c:2"]


def test_nodes_are_read_when_there_are_enough_and_the_rest_at_the_end():
    others = []
    bulk = BulkNodes({"topics": None}, LEDGERS, ROWS, lambda kind, node: others.append(node))
    for number in range(MOST_NODES + 1):
        assert bulk.takes(NodeKind.TOPIC, ordinary(NodeKind.TOPIC, number))
        if number == 10:
            assert list(bulk.full()) == []
    odd = ordinary(NodeKind.TOPIC)._replace(data=b"\x1a\x01\xff")
    assert bulk.takes(NodeKind.TOPIC, odd)
    assert [batch.num_rows for _, batch in bulk.full()] == [MOST_NODES, 1]
    assert others == [odd]
    assert list(bulk.rest()) == []


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (NodeKind.TOPIC, encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(3),)), compression="LZ4")),
        (NodeKind.TOPIC, b"ledgerInfo {\n  ledgerId: 3\n}\n"),
        (NodeKind.CURSOR, b"cursorsLedgerId: 3\n"),
        (NodeKind.LEDGER, b"BookieMetadataFormatVersion\t2\n"),
        (NodeKind.RACKS, b"{}"),
    ],
)
def test_compressed_records_text_and_other_kinds_are_left_to_the_decoder(kind, data):
    bulk = BulkNodes(ALL, LEDGERS, ROWS, lambda *_: None)
    assert not bulk.takes(kind, FoundNode("/x", data, 0, 0, 0, 0))
