"""Where a client is sent that asks the wrong broker."""

from types import SimpleNamespace

from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.admin_rest.topics.ownership import TopicOwnership, plan_location, topic_path
from mledger.metastore.records.paths import TopicName
from tests.support.aio import run


def test_the_request_is_kept_and_says_whether_a_broker_was_chosen():
    request = AdminRequest("GET", "/admin/v2/persistent/a/b/c%2Fd/stats", {"x": "1 2", "authoritative": "true"})
    url = plan_location("http://h:8080/", request, authoritative=False)
    assert url == "http://h:8080/admin/v2/persistent/a/b/c%2Fd/stats?x=1+2&authoritative=false"


def test_a_topics_path_is_encoded():
    assert topic_path(TopicName("a", "b", "c/d?"), "stats") == "/admin/v2/persistent/a/b/c%2Fd%3F/stats"


class TopicsBeforeSync:
    """Shows what it had before until it is synced."""

    def __init__(self, before, after):
        self.shown, self.after = before, after

    async def exists(self, path):
        return object() if path in self.shown else None

    async def sync(self):
        self.shown = self.after


def test_a_topic_that_a_lagging_server_does_not_have_yet_is_not_gone():
    """Else its schema, its policies and its permissions would be removed as left over."""
    topic = TopicName("a", "b", "c")
    store = TopicsBeforeSync((), (topic.managed_ledger_path,))
    ownership = TopicOwnership(SimpleNamespace(owners=SimpleNamespace(store=store)))
    assert not run(ownership.is_gone(topic))
    assert run(ownership.is_gone(TopicName("a", "b", "d")))
