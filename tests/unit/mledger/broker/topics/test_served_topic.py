"""A broker serves the kinds of topics that its settings say."""

import pytest

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.served_topic import check_enabled
from mledger.metastore.records.paths import TopicName


@pytest.mark.parametrize(
    ("domain", "setting", "key"),
    [
        ("persistent", "persistent_topics", "enablePersistentTopics"),
        ("non-persistent", "nonpersistent_topics", "enableNonPersistentTopics"),
    ],
)
def test_topics_of_a_kind_that_is_off_are_refused(domain, setting, key):
    topics = [TopicName.parse_served(f"{each}://a/b/c") for each in ("persistent", "non-persistent")]
    refused = []
    for topic in topics:
        try:
            check_enabled(topic, BrokerSettings(**{setting: False}))
        except BrokerRefusal as refusal:
            refused.append(str(refusal))
    assert refused == [f"{domain}://a/b/c is not served: this broker has {key}=false"]
