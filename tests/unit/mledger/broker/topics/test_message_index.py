"""Messages are found by the numbers that brokers give them."""

import pytest

from mledger.broker.protocol.broker_metadata import BrokerMetadataFields, BrokerMetadataWriter
from mledger.broker.topics.message_index import find_by_index, index_of
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run
from tests.support.pulsar_entries import pulsar_entry

LEDGERS = LedgerList([LedgerInfo(3, 50, 1, 1), LedgerInfo(9, 50, 1, 1)])
BATCH = 3
NUMBERED = BrokerMetadataFields(indexes=True)


def numbered(count, fields=NUMBERED):
    """Entries of three messages each."""
    return BrokerMetadataWriter(fields).prefixed([pulsar_entry(1)] * count, [BATCH] * count, now_ms=1)


def found(index, payloads):
    async def read_entry(position):
        return Entry(position, payloads[LEDGERS.count_through(position) - 1])

    return run(find_by_index(lambda: LEDGERS, read_entry, index))


@pytest.mark.parametrize(
    ("index", "position"),
    [(0, (3, 0)), (2, (3, 0)), (3, (3, 1)), (149, (3, 49)), (150, (9, 0)), (299, (9, 49)), (300, (9, 50))],
)
def test_the_entry_is_found_whose_batch_has_the_message(index, position):
    assert found(index, numbered(100)) == Position(*position)


def test_an_entry_without_a_number_does_not_hide_the_others():
    payloads = numbered(100)
    payloads[20:40] = [pulsar_entry(1)] * 20
    assert found(50 * BATCH, payloads) == Position(9, 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        pulsar_entry(1),
        *numbered(1, BrokerMetadataFields(timestamps=True)),
        b"\x0e\x02\x00\x00",
        b"\x0e\x02\xff\xff\xff\xff",
    ],
)
def test_an_entry_may_have_no_number(payload):
    with pytest.raises(RecordError):
        index_of(payload)
    with pytest.raises(RecordError):
        found(0, [payload] * 100)
