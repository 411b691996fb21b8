"""The schema of policy events is the one that Pulsar's brokers register, to the byte."""

from mledger.admin.policies.pulsar_event import PULSAR_EVENT, PULSAR_EVENT_PROPERTIES
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaEntry, SchemaInfo
from tests.support.recordings.policies import SCHEMA


def test_the_schema_is_the_recorded_one():
    recorded = SchemaInfo.FromString(SchemaEntry.FromString(SCHEMA).schema_data)
    assert recorded.schema == PULSAR_EVENT
    assert {pair.key: pair.value for pair in recorded.props} == PULSAR_EVENT_PROPERTIES
