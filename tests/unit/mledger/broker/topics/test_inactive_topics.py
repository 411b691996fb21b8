"""When a stored topic without use is deleted: by a policy, by broker.conf, or never."""

import pytest

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.inactive_topics import CAUGHT_UP, WITHOUT_SUBSCRIPTIONS, plan_inactive
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, InactiveTopics, ServicePolicies

POLICY = InactiveTopics(delete=True, mode=CAUGHT_UP, after_s=3)


def policies(delete, mode=CAUGHT_UP):
    return ServicePolicies(inactive_topics=InactiveTopics(delete, mode, 3))


@pytest.mark.parametrize(
    ("settings", "found", "expected"),
    [
        (BrokerSettings(), NO_SERVICE_POLICIES, None),
        (BrokerSettings(), policies(True), POLICY),
        (BrokerSettings(), policies(False), None),
        (BrokerSettings(), policies(True, "of_a_later_version"), None),
        (BrokerSettings(delete_idle_topics=False), policies(True), None),
        (BrokerSettings(delete_idle_topics=True), policies(False), None),
        (
            BrokerSettings(delete_idle_topics=True, idle_check_s=5.0),
            NO_SERVICE_POLICIES,
            InactiveTopics(True, WITHOUT_SUBSCRIPTIONS, 5),
        ),
        (
            BrokerSettings(delete_idle_topics=True, idle_limit_s=7.0, idle_mode=CAUGHT_UP),
            NO_SERVICE_POLICIES,
            InactiveTopics(True, CAUGHT_UP, 7),
        ),
    ],
)
def test_stored_topics_are_deleted_only_where_a_policy_or_the_settings_say_so(settings, found, expected):
    assert plan_inactive(settings, found) == expected
