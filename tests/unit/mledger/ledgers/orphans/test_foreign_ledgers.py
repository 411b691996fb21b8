"""Whose a ledger is by its own metadata."""

import pytest

from mledger.ledgers.orphans.foreign_ledgers import plan_foreign, plan_foreign_to_schema
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment

NAME = "shop/eu/persistent/orders"
TOPIC = b"persistent://shop/eu/orders"
OTHER = b"persistent://shop/eu/bills"


def ledger(**custom):
    metadata = tuple((f"pulsar/{key.replace('_', '-')}", value) for key, value in custom.items())
    return LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),), custom_metadata=metadata)


def of(**custom):
    return plan_foreign(7, ledger(**custom), NAME)


@pytest.mark.parametrize(
    "custom",
    [
        {},
        {"managed_ledger": NAME.encode()},
        {"managed_ledger": NAME.encode(), "cursor": b"billing"},
        {"compactedTopic": TOPIC},
        {"compactedTopic": b"shop/eu/orders"},
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


def test_a_schemas_ledger_is_its_own_and_no_other_schemas() -> None:
    assert plan_foreign_to_schema(7, ledger(schemaId=b"shop/eu/orders"), "shop/eu/orders") == ""
    assert plan_foreign_to_schema(7, ledger(), "shop/eu/orders") == ""
    assert plan_foreign_to_schema(7, ledger(schemaId=b"shop/eu/bills"), "shop/eu/orders") == "schema of shop/eu/bills"
    assert plan_foreign_to_schema(7, ledger(managed_ledger=NAME.encode()), "shop/eu/orders") == NAME
