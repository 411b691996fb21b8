"""What clients of each version take."""

import pytest

from mledger.broker.protocol.versions import ClientFeatures, features_of
from mledger.pb.PulsarApi_pb2 import CommandConnect, FeatureFlags


@pytest.mark.parametrize(
    ("since", "feature"),
    [
        (1, "takes_pings"),
        (4, "takes_batches"),
        (5, "takes_closes"),
        (9, "takes_end_of_topic"),
        (11, "takes_checksums"),
        (12, "takes_active_changes"),
    ],
)
def test_a_feature_begins_with_a_version(since, feature):
    assert not getattr(ClientFeatures(version=since - 1), feature)
    assert getattr(ClientFeatures(version=since), feature)


@pytest.mark.parametrize(
    ("version", "flag", "exposed", "takes"),
    [(18, True, True, True), (17, True, True, False), (21, False, True, False), (21, True, False, False)],
)
def test_broker_metadata_goes_to_clients_that_ask_for_it_where_the_broker_exposes_it(version, flag, exposed, takes):
    flags = FeatureFlags(supports_broker_entry_metadata=flag)
    features = features_of(CommandConnect(client_version="c", protocol_version=version, feature_flags=flags))
    assert features.takes_broker_metadata(exposed) is takes


def test_a_client_that_says_nothing_is_one_of_version_0():
    assert features_of(CommandConnect(client_version="c")) == ClientFeatures(version=0)
