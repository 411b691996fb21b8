"""The figures of all topics of a broker, where Pulsar has them."""

from itertools import pairwise

import pytest

from mledger.broker.admin_rest.topics.figures.broker_topics import plan_places, plan_topic
from mledger.broker.lookup.bundle_ranges import bundle_name, plan_boundaries, plan_bundle
from mledger.broker.lookup.owned_bundles import Bundle
from mledger.metastore.records.paths import TopicName

TOPICS = [TopicName("t", "n", f"topic-{number}") for number in range(50)]
BOUNDARIES = plan_boundaries(8)
BUNDLES = [Bundle("t/n", bundle_name(*pair)) for pair in pairwise(BOUNDARIES)]


@pytest.mark.parametrize("owned", [BUNDLES, BUNDLES[::2], BUNDLES[7:], BUNDLES[:1], []])
def test_topics_are_in_their_bundles_as_far_as_these_are_served(owned):
    placed = plan_places(TOPICS, [*owned, Bundle("t/other", "0x00000000_0xffffffff")])
    shown = {topic: name for name, kinds in placed.get("t/n", {}).items() for topic in kinds["persistent"]}
    of_bundles = {topic: plan_bundle(topic, BOUNDARIES) for topic in TOPICS}
    ranges = {each.range for each in owned}
    assert shown == {topic: name for topic, name in of_bundles.items() if name in ranges}
    assert "t/other" not in placed


def test_topics_that_are_stored_and_those_that_are_not_are_told_apart():
    other = TopicName("t", "n", "topic-1", domain="non-persistent")
    placed = plan_places([TOPICS[1], other], [Bundle("t/n", "0x00000000_0xffffffff")])
    assert placed == {"t/n": {"0x00000000_0xffffffff": {"persistent": [TOPICS[1]], "non-persistent": [other]}}}


def test_a_topic_that_is_shown_has_no_figure_that_is_not_kept():
    stats = {
        "publishers": [],
        "subscriptions": {"s": {"type": "None", "consumers": [], "msgBacklog": 3}},
        "msgRateIn": 1,
    }
    found = plan_topic(stats)
    assert (found["producerCount"], found["msgRateIn"], "storageSize" in found) == (0, 1, False)
    assert found["subscriptions"]["s"]["msgBacklog"] == 3
    assert "unackedMessages" not in found["subscriptions"]["s"]
