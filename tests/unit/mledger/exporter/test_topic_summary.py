"""What is noted of a topic's records, and of those of its cursors."""

import pytest
from msgspec import msgpack

from mledger.errors import InvalidLedgerList
from mledger.exporter.topic_figures import ConsumedLedger, RecordedCursor, TopicFigures
from mledger.exporter.topic_summary import UNREADABLE, CursorSummary, TopicSummary, records_of_topic
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo

PATH = "/managed-ledgers/a/b/persistent/t"
INFO = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1, 5, 50, 1000), LedgerInfo(2))))
AT_2 = encode_managed_cursor_info(ManagedCursorInfo(77, mark_delete=Position(2, -1)))


def topic():
    return records_of_topic(PATH, INFO, 1)


def test_a_topic_has_its_figures_its_references_and_its_cursors():
    read = topic()
    read.add_cursor("sub%2F1", "sub/1", AT_2)
    expected = TopicSummary(
        "a/b",
        len(INFO),
        TopicFigures(2, 5, 50),
        (1, 2, 77),
        (CursorSummary("sub/1", len(AT_2), RecordedCursor("snapshot", 0, 0, 0)),),
        consumed=(ConsumedLedger(1000, 50, 0),),
    )
    assert read.summary() == expected
    assert msgpack.decode(msgpack.encode(expected), type=TopicSummary) == expected


def test_a_cursor_of_the_system_holds_ledgers_but_is_not_counted():
    read = topic()
    behind = encode_managed_cursor_info(ManagedCursorInfo(mark_delete=Position(1, 0)))
    read.add_cursor("pulsar.dedup", "pulsar.dedup", behind)
    found = read.summary()
    assert (found.cursors, found.other_sizes, found.consumed) == ((), (len(behind),), ())


@pytest.mark.parametrize("data", [b"\xff", encode_managed_cursor_info(ManagedCursorInfo(78))])
def test_nothing_counts_as_consumed_where_a_position_is_unknown(data):
    read = topic()
    read.add_cursor("unknown", "unknown", data)
    read.add_cursor("sub", "sub", AT_2)
    assert read.summary().consumed == ()


def test_records_that_do_not_parse_or_may_not_be_read_are_counted():
    read = topic()
    read.add_cursor("damaged", "damaged", b"\xff")
    assert not read.closed
    read.add_closed()
    found = read.summary()
    assert (found.unreadable, found.other_sizes, found.consumed, read.closed) == (2, (1,), (), True)


@pytest.mark.parametrize(
    ("path", "data", "error"),
    [
        (PATH, b"\xff", RecordError),
        ("/managed-ledgers/a", INFO, InvalidName),
        (PATH, encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1, -5), LedgerInfo(2)))), InvalidLedgerList),
    ],
)
def test_a_topic_that_cannot_be_counted_is_an_error(path, data, error):
    with pytest.raises(error) as caught:
        records_of_topic(path, data, 0)
    assert isinstance(caught.value, UNREADABLE)
