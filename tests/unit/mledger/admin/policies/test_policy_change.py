"""Events of changed policies have the bytes of Pulsar's, and keep what they do not change."""

import json

import pytest

from mledger.admin.policies.policy_change import encode_event, event_key, plan_entry, plan_event, plan_partition
from mledger.admin.policies.policy_events import PolicyRecord, PolicyScope, PolicyTable, decode_schema, parse_avro
from mledger.admin.policies.pulsar_event import PULSAR_EVENT
from mledger.messages.pulsar_message import decode_entry, messages
from mledger.metastore.records.paths import TopicName
from tests.support.recordings.policies import EVENTS, SCHEMA

AVRO = decode_schema(SCHEMA, "recorded")
TOPIC = TopicName.parse("persistent://public/kept/own")


def table_of(*entries):
    """The table after these entries."""
    table = PolicyTable()
    for entry in entries:
        table.apply(decode_entry(entry), AVRO, "here")
    return table


@pytest.mark.parametrize(
    ("index", "topic", "scope", "retention"),
    [
        (0, "own", PolicyScope.LOCAL, {"retentionTimeInMinutes": 600, "retentionSizeInMB": 700}),
        (1, "local-wins", PolicyScope.GLOBAL, {"retentionTimeInMinutes": 11, "retentionSizeInMB": 12}),
    ],
)
def test_the_first_event_of_a_topic_has_the_bytes_and_metadata_of_pulsars(index, topic, scope, retention):
    theirs = decode_entry(EVENTS[index])
    name = TopicName.parse(f"persistent://public/kept/{topic}")
    event = plan_event(name, scope, None, {"retentionPolicies": retention}, "peer")
    entry = plan_entry(
        encode_event(event, AVRO),
        event_key(name, scope),
        theirs.metadata.schema_version,
        event["replicateTo"] or (),
        producer=theirs.metadata.producer_name,
        sequence_id=theirs.metadata.sequence_id,
        now_ms=theirs.metadata.publish_time,
    )
    ours = decode_entry(entry)
    assert ours.payload == theirs.payload
    assert ours.metadata == theirs.metadata


def test_a_change_keeps_every_other_field_of_the_record():
    unknown_here = {"maxMessageSize": 77, "entryFilters": {"entryFilterNames": "a,b"}, "shadowTopics": ["x"]}
    before = PolicyRecord(fields={**table_of(EVENTS[0]).record(TOPIC, PolicyScope.LOCAL).fields, **unknown_here})
    event = plan_event(TOPIC, PolicyScope.LOCAL, before, {"maxProducerPerTopic": 3}, "peer")
    value = encode_event(event, AVRO)
    entry = plan_entry(
        value, event_key(TOPIC, PolicyScope.LOCAL), bytes(8), ["peer"], producer="p", sequence_id=1, now_ms=1
    )
    found = table_of(entry).record(TOPIC, PolicyScope.LOCAL)
    assert {**found.fields} == {**before.fields, "maxProducerPerTopic": 3}
    assert found.policies.retention.minutes == 600
    assert found.policies.service.max_producers == 3
    removed = plan_event(TOPIC, PolicyScope.LOCAL, found, {"retentionPolicies": None}, "peer")
    policies = removed["topicPoliciesEvent"]["policies"]
    assert (policies["retentionPolicies"], policies["maxMessageSize"]) == (None, 77)
    assert [message.key for message in messages(decode_entry(entry))] == [str(TOPIC)]


def test_a_schema_without_a_place_for_something_is_not_used():
    older = json.loads(PULSAR_EVENT)
    policies = older["fields"][3]["type"][1]["fields"][2]["type"][1]
    policies["fields"] = [field for field in policies["fields"] if field["name"] != "maxMessageSize"]
    older = parse_avro(json.dumps(older), "older")
    event = plan_event(TOPIC, PolicyScope.LOCAL, None, {"maxMessageSize": 7}, "peer")
    assert encode_event(event, older) is None
    assert encode_event(event, AVRO) is not None
    assert encode_event(plan_event(TOPIC, PolicyScope.LOCAL, None, {"maxProducerPerTopic": 7}, "peer"), older)
    assert encode_event(plan_event(TOPIC, PolicyScope.LOCAL, None, {"isOfALaterVersion": 1}, "peer"), AVRO) is None
    assert encode_event(plan_event(TOPIC, PolicyScope.LOCAL, None, {"maxProducerPerTopic": "x"}, "peer"), AVRO) is None


def test_partitions_are_those_of_javas_hash():
    assert [plan_partition(key, 1 << 31) for key in ("", "a", "hello", "polygenelubricants")] == [0, 97, 99162322, 0]
    assert plan_partition("hello", 5) == 99162322 % 5
