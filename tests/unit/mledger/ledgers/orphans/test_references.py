"""Which records name which ledgers, and hence which are orphans or dangling references."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mledger.ledgers.orphans.pending_records import PendingRecord
from mledger.ledgers.orphans.references import (
    LedgerOrigin,
    Naming,
    Reference,
    find_dangling,
    find_orphans,
    origin_of,
    reference_in_record,
    references_in_cursor,
    references_in_schema,
    references_in_topic,
)
from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import (
    DELAYED_BUCKET,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
)

NOW = 1_000_000


def origin(ledger_id: int, component: str = "managed-ledger", age_ms: int = 10_000) -> LedgerOrigin:
    return LedgerOrigin(ledger_id, component, "t/n/persistent/x", "", NOW - age_ms)


def ids(origins: tuple[LedgerOrigin, ...]) -> list[int]:
    return [each.ledger_id for each in origins]


def test_a_topic_names_its_ledgers():
    info = ManagedLedgerInfo((LedgerInfo(3, 1), LedgerInfo(5)))
    assert references_in_topic("/p", info) == [Reference(3, Naming.DATA, "/p"), Reference(5, Naming.DATA, "/p")]


@pytest.mark.parametrize(
    ("complete", "deleted", "gone"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_ledger_need_not_exist_once_it_is_offloaded_and_deleted(complete, deleted, gone):
    context = OffloadMessage(complete=complete, bookkeeperDeleted=deleted).SerializeToString()
    info = ManagedLedgerInfo((LedgerInfo(3, 1, offload=OffloadContext(context)),))
    assert [each.may_be_gone for each in references_in_topic("/p", info)] == [gone]


def test_a_cursor_names_its_ledger_and_those_of_compaction_and_delayed_delivery():
    record = ManagedCursorInfo(
        7,
        properties=(("CompactedTopicLedger", 8), ("other", 99)),
        cursor_properties=(("#pulsar.internal.delayed.bucket_1_2", "9"), ("other", "98")),
        last_checkpoint=Position(6, 3),
    )
    assert references_in_cursor("/p/c", record) == [
        Reference(7, Naming.CURSOR, "/p/c"),
        Reference(6, Naming.CURSOR, "/p/c"),
        Reference(8, Naming.COMPACTED, "/p/c", may_be_gone=True),
        Reference(9, Naming.DELAYED, "/p/c"),
    ]
    without = replace(record, cursors_ledger_id=-1, last_checkpoint=None)
    assert references_in_cursor("/p/c", without)[0] == Reference(8, Naming.COMPACTED, "/p/c")
    assert references_in_cursor("/p/c", ManagedCursorInfo(-1, Position(1, 1))) == []


def test_a_schema_names_the_ledgers_of_all_its_versions():
    locator = SchemaLocator()
    for entry, ledger in ((locator.info, 5), (locator.index.add(), 4), (locator.index.add(), 5)):
        entry.version, entry.hash = 0, b""
        entry.position.ledgerId, entry.position.entryId = ledger, 0
    found = references_in_schema("/schemas/t/n/x", locator.SerializeToString())
    assert [each.ledger_id for each in found] == [4, 5]
    with pytest.raises(RecordError, match="/schemas/t/n/x"):
        references_in_schema("/schemas/t/n/x", b"\xff")


def test_the_ledger_of_a_pending_record_need_not_exist():
    reference = reference_in_record(PendingRecord("/mledger/pending/4", 4, "t/n/persistent/x"))
    assert find_dangling([reference], set()) == ()


def test_a_ledger_names_its_origin():
    metadata = LedgerMetadata(
        1,
        1,
        1,
        (Segment(0, ("b",)),),
        custom_metadata=(("pulsar/managed-ledger", b"t/n/persistent/x"), ("pulsar/cursor", b"c")),
    )
    assert origin_of(4, metadata, 17) == LedgerOrigin(
        4, "managed-ledger", "t/n/persistent/x", "c", 17, "t/n/persistent/x cursor c"
    )
    nothing = LedgerMetadata(1, 1, 1, (Segment(0, ("b",)),), ctime=12)
    assert origin_of(5, nothing, 17) == LedgerOrigin(5, "", "", "", 12)


@pytest.mark.parametrize(
    ("custom", "said"),
    [
        ({"pulsar/managed-ledger": "t/n/persistent/x"}, "t/n/persistent/x"),
        ({"pulsar/managed-ledger": "t/n/persistent/x", "pulsar/cursor": "c"}, "t/n/persistent/x cursor c"),
        ({"component": "schema", "pulsar/schemaId": "t/n/x"}, "schema of t/n/x"),
        (
            {
                "component": "compacted-ledger",
                "pulsar/compactedTopic": "persistent://t/n/x",
                "pulsar/compactedTo": "\x08\r",
            },
            "compacted topic persistent://t/n/x",
        ),
        (
            {
                "component": "delayed-index-bucket",
                "pulsar/delayedIndexTopic": "persistent://t/n/x",
                "pulsar/delayedIndexCursor": "c",
            },
            "delayed delivery of persistent://t/n/x cursor c",
        ),
        ({"component": "other"}, ""),
    ],
)
def test_the_owner_of_a_ledger_is_described_in_words(custom, said):
    metadata = LedgerMetadata(
        1, 1, 1, (Segment(0, ("b",)),), custom_metadata=tuple((key, value.encode()) for key, value in custom.items())
    )
    assert origin_of(4, metadata, 17).of == said


def test_a_ledger_that_nothing_names_is_an_orphan_unless_it_is_young_or_of_an_unknown_component():
    listed = [
        origin(1),
        origin(2),
        origin(3, age_ms=10),
        origin(4, ""),
        origin(5, "compacted-ledger"),
        origin(6, "schema"),
    ]
    found = find_orphans(listed, {1}, now_ms=NOW, min_age_ms=60)
    assert ids(found.candidates) == [2, 6]
    assert ids(found.young) == [3]
    assert ids(found.other) == [4, 5]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_every_ledger_is_named_or_an_orphan_and_every_reference_holds_or_dangles(existing, named):
    references = [Reference(ledger_id, Naming.DATA, "/p") for ledger_id in sorted(named)]
    found = find_orphans([origin(ledger_id) for ledger_id in sorted(existing)], named, now_ms=NOW)
    dangling = {each.ledger_id for each in find_dangling(references, existing)}
    assert set(ids(found.candidates)) == existing - named
    assert dangling == named - existing


def test_numbers_of_no_ledger_in_the_properties_that_clients_set_name_none():
    record = ManagedCursorInfo(
        -1,
        Position(1, 0),
        properties=(("CompactedTopicLedger", -5),),
        cursor_properties=((f"{DELAYED_BUCKET}_1_2", "9" * 5000), (f"{DELAYED_BUCKET}_3_4", str(2**63))),
    )
    assert references_in_cursor("/managed-ledgers/t/n/persistent/x/c", record) == []
