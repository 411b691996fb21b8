"""When an entry was published: golden entries of a broker, and bytes that are no such entries."""

import json

import pytest

from mledger.cursors.entry_time import publish_time
from mledger.metastore.errors import RecordError
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
