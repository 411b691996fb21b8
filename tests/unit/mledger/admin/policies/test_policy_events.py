"""Policies of single topics, decoded from what a broker of Pulsar 4.2.4 wrote (topic-policies/change-events.json)."""

import pytest

from mledger.admin.policies.policy_events import PolicyScope, PolicyTable, decode_schema, schema_position
from mledger.messages.pulsar_message import PulsarMessage, decode_compacted_entry, decode_entry, encode_entry
from mledger.metastore.cluster.policies import NO_POLICIES, Persistence, Retention, StoragePolicies
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from tests.support.recordings import golden
from tests.support.recordings.policies import COMPACTED, EVENTS, SCHEMA, applied_retention

RECORDED = golden.load("topic-policies/change-events.json")
SCHEMA_PARSED = decode_schema(SCHEMA, "the schema")
LOCATOR = bytes.fromhex(RECORDED["schema_locator_hex"])


def topic(name: str) -> TopicName:
    return TopicName("public", "kept", name)


def table_of(entries, decode=decode_entry) -> PolicyTable:
    table = PolicyTable()
    for number, entry in enumerate(entries):
        table.apply(decode(entry), SCHEMA_PARSED, f"entry {number}")
    return table


def compacted(entry):
    return decode_compacted_entry(entry)[1]


@pytest.mark.parametrize("table", [table_of(EVENTS), table_of(COMPACTED, compacted)], ids=["events", "compacted"])
@pytest.mark.parametrize("name", ["own", "local-wins", "shorter", "parts", "after-compaction"])
def test_a_topic_s_retention_is_what_the_broker_applied(table, name) -> None:
    assert table.of(topic(name), PolicyScope.LOCAL).retention == applied_retention(name)


def test_policies_for_all_clusters_are_kept_apart_from_those_of_this_one() -> None:
    table = table_of(EVENTS)
    assert table.of(topic("local-wins"), PolicyScope.GLOBAL).retention == Retention(11, 12)
    assert table.of(topic("own"), PolicyScope.GLOBAL) == NO_POLICIES


def test_quorums_are_read() -> None:
    assert table_of(EVENTS).of(topic("own"), PolicyScope.LOCAL).persistence == Persistence(3, 2, 2)


def test_a_removed_policy_is_gone() -> None:
    table = table_of(EVENTS)
    assert table.of(topic("removed"), PolicyScope.LOCAL).retention is None
    assert table.of(topic("deleted-later"), PolicyScope.LOCAL) == NO_POLICIES


def test_a_message_without_a_value_removes_that_of_its_key() -> None:
    before = table_of(EVENTS[:6])
    assert before.of(topic("deleted-later"), PolicyScope.LOCAL).retention == Retention(41, 42)
    gone = encode_entry(
        [PulsarMessage(b"", key="__G__persistent://public/kept/local-wins", null_value=True)],
        producer_name="p",
        publish_time=1,
    )
    before.apply(decode_entry(gone), SCHEMA_PARSED, "x")
    assert before.of(topic("local-wins"), PolicyScope.GLOBAL) == NO_POLICIES
    assert before.of(topic("local-wins"), PolicyScope.LOCAL).retention == Retention(21, 22)


@pytest.mark.parametrize("key", ["non-persistent://public/kept/live", "__G__non-persistent://public/kept/own"])
def test_a_non_persistent_topic_may_be_gone(key) -> None:
    """A broker of Pulsar 4.2 sends both keys when such a topic has no clients left, whether it had policies or not."""
    table = table_of(EVENTS)
    gone = encode_entry([PulsarMessage(b"", key=key, null_value=True)], producer_name="p", publish_time=1)
    table.apply(decode_entry(gone), SCHEMA_PARSED, "x")
    assert table == table_of(EVENTS)


def test_a_partition_has_the_policies_of_its_topic() -> None:
    assert table_of(EVENTS).of(topic("parts-partition-2"), PolicyScope.LOCAL).retention == applied_retention("parts")


def test_a_copied_table_is_independent() -> None:
    table = table_of(EVENTS[:1])
    other = table.copy()
    other.apply(decode_entry(EVENTS[2]), SCHEMA_PARSED, "x")
    assert table.of(topic("local-wins"), PolicyScope.LOCAL) == NO_POLICIES
    table.merge(other)
    assert table.of(topic("local-wins"), PolicyScope.LOCAL) == StoragePolicies(Retention(21, 22))


def test_a_truncated_event_is_named() -> None:
    broken = encode_entry([PulsarMessage(b"\x00\x02", key="x")], producer_name="p", publish_time=1)
    with pytest.raises(RecordError, match="entry 7"):
        PolicyTable().apply(decode_entry(broken), SCHEMA_PARSED, "entry 7")


def test_the_schema_is_found_by_the_version_that_a_message_names() -> None:
    wanted = Position(RECORDED["schema_ledgers"][0]["ledgerId"], 0)
    version = decode_entry(EVENTS[0]).metadata.schema_version
    assert schema_position(LOCATOR, version, "/schemas/x") == schema_position(LOCATOR, b"", "/schemas/x") == wanted
    with pytest.raises(RecordError, match="no version 9"):
        schema_position(LOCATOR, (9).to_bytes(8, "big"), "/schemas/x")


def test_a_schema_that_is_not_avro_is_named() -> None:
    with pytest.raises(RecordError, match="entry 3"):
        decode_schema(b"\x12\x04\x22\x02{}", "entry 3")
