"""Whether a topic's messages are deduplicated."""

import pytest

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.deduplication import plan_deduplication
from mledger.metastore.cluster.service_policies import ServicePolicies


@pytest.mark.parametrize("setting", [True, False])
@pytest.mark.parametrize(("policy", "expected"), [(None, None), (True, True), (False, False)])
def test_a_policy_comes_before_the_setting(policy, setting, expected):
    wanted = setting if expected is None else expected
    assert plan_deduplication(ServicePolicies(deduplication=policy), BrokerSettings(deduplication=setting)) is wanted
