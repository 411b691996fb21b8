"""When an entry was published: golden entries of a broker, bytes that are no such entries, and the search by time."""

import asyncio
import json

import pytest

from mledger.cursors.entry_time import LOOKED_AT, find_by_time, publish_time
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.errors import RecordError
from mledger.metastore.records.values import LedgerInfo
from tests.support.recordings.golden import ROOT

ENTRIES = [
    entry
    for path in sorted((ROOT / "pulsar-frames").glob("entries-*.json"))
    for entry in json.loads(path.read_text())["entries"]
]
PUBLISHED = range(1_700_000_000_000, 1_700_001_000_000)  # the producers' clock in the golden data


def test_there_are_entries_of_both_kinds():
    assert {entry["brokerEntryMetadata"] is None for entry in ENTRIES} == {True, False}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["compression"])
def test_the_broker_s_time_comes_before_the_producer_s(entry):
    found = publish_time(bytes.fromhex(entry["hex"]))
    if entry["brokerEntryMetadata"] is None:
        assert found in PUBLISHED
    else:
        assert found == entry["brokerEntryMetadata"]["brokerTimestamp"]


@pytest.mark.parametrize("cut", [0, 1, 5, 8, 20])
def test_bytes_that_no_broker_wrote_are_refused(cut):
    whole = bytes.fromhex(next(entry["hex"] for entry in ENTRIES if entry["brokerEntryMetadata"] is None))
    for payload in (whole[:cut], b"just text, long enough to be looked at"):
        with pytest.raises(RecordError, match="publish time"):
            publish_time(payload)


def _published(payload):
    if not payload:
        raise RecordError("no publish time")
    return int(payload)


def found_before(time_ms, *payloads):
    """The entry id that a search finds in a ledger with these entries; each is its time, or has none."""
    ledgers = LedgerList([LedgerInfo(1)], current=1, live_entries=len(payloads))

    async def read_entry(position):
        return Entry(position, payloads[position.entry_id])

    found = asyncio.run(find_by_time(lambda: ledgers, read_entry, time_ms, _published))
    return None if found is None else found.entry_id


def test_the_newest_entry_before_a_time_is_found():
    assert [found_before(time_ms, b"10", b"20", b"30") for time_ms in (5, 15, 25, 35)] == [None, 0, 1, 2]


@pytest.mark.parametrize("time_ms", [5, 15, 25, 35])
def test_an_entry_without_a_time_counts_as_the_next_one_that_has_one(time_ms):
    dated = found_before(time_ms, b"10", b"10", b"10", b"20", b"30", b"30", b"30")
    assert found_before(time_ms, b"", b"", b"10", b"20", b"", b"", b"30") == dated


def test_entries_without_a_time_at_the_end_are_not_before_any():
    assert found_before(35, b"10", b"20", b"", b"") == 1


def test_no_entry_with_a_time_is_an_error():
    with pytest.raises(RecordError, match="no publish time"):
        found_before(35, b"", b"")


def test_of_many_entries_without_a_time_the_last_ones_are_found():
    payloads = [b"10", *[b""] * (3 * LOOKED_AT), b"20"]
    assert found_before(15, *payloads) == 0
    assert found_before(25, *payloads) == len(payloads) - 1
