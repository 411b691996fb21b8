"""Whose a ledger is by its own metadata."""

import pytest

from mledger.ledgers.foreign_ledgers import plan_foreign
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment

NAME = "shop/eu/persistent/orders"
TOPIC = b"persistent://shop/eu/orders"
OTHER = b"persistent://shop/eu/bills"


def of(**custom):
    metadata = tuple((f"pulsar/{key.replace('_', '-')}", value) for key, value in custom.items())
    return plan_foreign(7, LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),), custom_metadata=metadata), NAME)


@pytest.mark.parametrize(
    "custom",
    [
        {},
        {"managed_ledger": NAME.encode()},
        {"managed_ledger": NAME.encode(), "cursor": b"billing"},
        {"compactedTopic": TOPIC},
        {"delayedIndexTopic": TOPIC, "delayedIndexCursor": b"billing"},
    ],
)
def test_a_ledger_that_names_the_topic_or_none_is_its_own(custom):
    assert of(**custom) == ""


@pytest.mark.parametrize(
    ("custom", "said"),
    [
        ({"managed_ledger": b"shop/eu/persistent/bills"}, "shop/eu/persistent/bills"),
        ({"managed_ledger": b"shop/eu/persistent/bills", "cursor": b"a"}, "shop/eu/persistent/bills cursor a"),
        ({"compactedTopic": OTHER}, f"compacted topic {OTHER.decode()}"),
        ({"delayedIndexTopic": OTHER}, f"delayed delivery of {OTHER.decode()} cursor "),
        ({"schemaId": b"shop/eu/orders"}, "schema of shop/eu/orders"),
    ],
)
def test_a_ledger_that_names_somebody_else_is_foreign(custom, said):
    assert of(**custom) == said
