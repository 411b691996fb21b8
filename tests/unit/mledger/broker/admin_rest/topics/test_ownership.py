"""Where a client is sent that asks the wrong broker."""

from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.admin_rest.topics.ownership import plan_location, topic_path
from mledger.metastore.records.paths import TopicName


def test_the_request_is_kept_and_says_whether_a_broker_was_chosen():
    request = AdminRequest("GET", "/admin/v2/persistent/a/b/c%2Fd/stats", {"x": "1 2", "authoritative": "true"})
    url = plan_location("http://h:8080/", request, authoritative=False)
    assert url == "http://h:8080/admin/v2/persistent/a/b/c%2Fd/stats?x=1+2&authoritative=false"


def test_a_topics_path_is_encoded():
    assert topic_path(TopicName("a", "b", "c/d?"), "stats") == "/admin/v2/persistent/a/b/c%2Fd%3F/stats"
