"""Names in a list of topics."""

from mledger.broker.console.pages.overview_pages import topic_in
from mledger.metastore.records.paths import TopicName


def test_a_topic_s_own_name_may_have_slashes():
    assert topic_in("a/b", "persistent://a/b/c/d") == TopicName("a", "b", "c/d")
    assert topic_in("a/b", "non-persistent://a/b/c", "non-persistent") == TopicName(
        "a", "b", "c", domain="non-persistent"
    )
