"""What of a backlog is read, and what of it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.topics.subscriptions.backlog_scan import (
    ScanLimits,
    ScannedBacklog,
    plan_counted,
    plan_span,
    scan_backlog,
)
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.positions import EARLIEST, LATEST
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.messages.pulsar_message import assemble_entry
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import LedgerInfo
from mledger.pb.PulsarApi_pb2 import MessageMetadata
from tests.support.aio import run

LEDGERS = LedgerList([LedgerInfo(3, 50, 1, 1), LedgerInfo(5, 0, 1, 1), LedgerInfo(9, 50, 1, 1)])
START = Position(3, NO_ENTRY)
UNLIMITED = ScanLimits(1000, 60_000, 7, 5)
EVERY = [LEDGERS.entry_at(index) for index in range(100)]


def acked(mark_delete=START, positions=()):
    state = AckState(mark_delete)
    state.acknowledge(positions, LEDGERS)
    return state


class ReadBacklog:
    """Entries of `LEDGERS`, and how many of them were read."""

    def __init__(self, payload):
        self.ledger_list, self.payload, self.reads = LEDGERS, payload, 0

    async def read(self, first, count, max_bytes, last):
        found = [Entry(each, self.payload) for each in EVERY if first <= each <= last][: min(count, max_bytes)]
        self.reads += len(found)
        return found


def entry(**fields):
    return assemble_entry(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields), b"x")


MESSAGE = entry()


def scanned(acks, start=None, payload=MESSAGE, limits=UNLIMITED):
    topic = ReadBacklog(payload)
    return run(scan_backlog(topic, acks, start, limits)), topic.reads


@pytest.mark.parametrize("start", [EARLIEST, Position(3, NO_ENTRY), Position(3, -9), Position(2, 7), Position(3, 0)])
def test_a_span_begins_at_the_next_entry_that_there_is(start):
    assert plan_span(LEDGERS, acked(), start, 4) == (Position(3, 0), Position(3, 3))


@pytest.mark.parametrize("start", [LATEST, Position(9, 50), Position(9, 7_000), Position(10, 0)])
def test_there_is_none_past_the_end(start):
    assert plan_span(LEDGERS, acked(), start, 4) is None


def test_a_span_ends_with_its_ledger_and_before_many_acknowledged_entries():
    assert plan_span(LEDGERS, acked(), Position(3, 48), 10) == (Position(3, 48), Position(3, 49))
    assert plan_span(LEDGERS, acked(), Position(3, 50), 10) == (Position(9, 0), Position(9, 9))
    few, many = EVERY[3:6], EVERY[10:40]
    acks = acked(positions=[*few, *many])
    assert plan_span(LEDGERS, acks, Position(3, 0), 50) == (Position(3, 0), Position(3, 9))
    assert plan_span(LEDGERS, acks, Position(3, 10), 5) == (Position(3, 40), Position(3, 44))


@given(
    st.integers(-1, 99),
    st.sets(st.integers(0, 99)),
    st.one_of(st.none(), st.integers(0, 110)),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_every_entry_counts_once_that_is_not_acknowledged_by_itself(mark, deleted, start, at_once, max_bytes):
    acks = acked(EVERY[mark] if mark >= 0 else START, [EVERY[each] for each in deleted if each > mark])
    begin = None if start is None else EVERY[start] if start < 100 else LATEST
    found, _ = scanned(acks, begin, limits=ScanLimits(1000, 60_000, at_once, max_bytes))
    counted = [
        each
        for each in EVERY
        if (each > acks.mark_delete if begin is None else each >= begin)
        and (each <= acks.mark_delete or not acks.is_deleted(each))
    ]
    assert (found.entries, found.messages, found.aborted) == (len(counted), len(counted), False)
    assert (found.first, found.last) == ((counted[0], counted[-1]) if counted else (None, None))


@pytest.mark.parametrize(("limit", "aborted"), [(0, True), (20, True), (99, True), (100, False), (2**62, False)])
def test_a_scan_ends_at_its_limit(limit, aborted):
    found, reads = scanned(acked(), limits=ScanLimits(limit, 60_000, 7, 5))
    assert (found.entries, found.aborted) == (min(limit, 100), aborted)
    assert reads == found.entries


def test_a_scan_ends_in_time():
    found, _ = scanned(acked(), limits=ScanLimits(1000, -1, 7, 5))
    assert (found.entries, found.aborted) == (0, True)


def test_messages_of_batches_count_and_markers_are_no_entries():
    found, _ = scanned(acked(), payload=entry(num_messages_in_batch=5))
    assert (found.entries, found.messages, found.markers) == (100, 500, 0)
    found, reads = scanned(acked(), payload=entry(marker_type=1), limits=ScanLimits(30, 60_000, 7, 5))
    assert (found.entries, found.messages, found.markers, reads, found.aborted) == (0, 0, 30, 30, True)


def test_what_is_no_message_counts_as_one():
    found = ScannedBacklog()
    for payload in (b"", b"raw", b"\x0e\x02\xff\xff\xff\xff", entry()):
        found.take(Entry(Position(3, 0), payload))
    assert (found.entries, found.messages) == (4, 4)


def test_an_entry_that_is_acknowledged_meanwhile_does_not_count():
    acks = acked()
    acks.acknowledge([EVERY[1]], LEDGERS)
    assert plan_counted([Entry(each, b"") for each in EVERY[:3]], acks) == [Entry(EVERY[0], b""), Entry(EVERY[2], b"")]
