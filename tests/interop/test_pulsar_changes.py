"""What a command of ours changes is what the official client is then delivered; the broker has given the bundle up."""

import pytest

from tests.support.cli import ok
from tests.support.pulsar_load import consume, delivered, produce, subscribe

pytestmark = pytest.mark.interop

PAYLOADS = [b"%d" % number for number in range(10)]


@pytest.fixture(scope="module")
def namespace(pulsar):
    """Keeps everything."""
    return pulsar.namespace("changes", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})


@pytest.fixture
def change(pulsar, namespace, tmp_path, monkeypatch):
    """Runs a changing command on a topic that nobody serves."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=""):
        pulsar.broker.ask("PUT", f"v2/namespaces/{namespace}/unload")
        return ok(*arguments, url=pulsar.url, stdin=stdin)

    return run


@pytest.fixture
def topic(request, pulsar, namespace):
    """Ten messages and a subscription that has acknowledged five of them."""
    topic = f"{namespace}/{request.node.name.replace('_', '-')}"
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    consume(pulsar, topic, 5)
    return topic


def test_a_cursor_reset_to_the_earliest_entry_is_delivered_everything_again(pulsar, topic, change):
    change("cursors", "reset", f"persistent://{topic}", "sub", "--to", "earliest", "--yes")
    assert consume(pulsar, topic, 10) == PAYLOADS


def test_skipped_entries_are_not_delivered(pulsar, topic, change):
    change("cursors", "skip", f"persistent://{topic}", "sub", "2", "--yes")
    assert consume(pulsar, topic, 3) == PAYLOADS[7:]


def test_a_cleared_cursor_is_delivered_only_what_comes(pulsar, topic, change):
    change("cursors", "clear", f"persistent://{topic}", "sub", "--yes")
    produce(pulsar, topic, [b"next"])
    assert consume(pulsar, topic, 1) == [b"next"]


def test_a_deleted_cursor_is_a_subscription_no_more(pulsar, topic, change):
    change("cursors", "delete", f"persistent://{topic}", "sub", "--yes")
    assert pulsar.internal_stats(topic)["cursors"] == {}


def test_a_cursor_that_was_created_is_a_subscription_from_there(pulsar, topic, change):
    change("cursors", "create", f"persistent://{topic}", "made", "--at", "earliest")
    assert consume(pulsar, topic, 10, "made") == PAYLOADS


def test_messages_that_were_produced_are_delivered(pulsar, topic, change):
    change("topics", "produce", f"persistent://{topic}", stdin="one\ntwo\n")
    assert consume(pulsar, topic, 7) == [*PAYLOADS[5:], b"one", b"two"]


def test_a_terminated_topic_takes_no_more_and_is_delivered_to_its_end(pulsar, topic, change):
    change("topics", "terminate", f"persistent://{topic}", "--yes")
    assert consume(pulsar, topic, 5) == PAYLOADS[5:]
    with pytest.raises(Exception, match="Terminated"):
        produce(pulsar, topic, [b"late"])


def test_trimming_a_topic_leaves_what_retention_keeps(pulsar, topic, change):
    consume(pulsar, topic, 5)
    change("topics", "trim", f"persistent://{topic}", "--yes")
    assert delivered(pulsar, topic) == PAYLOADS


def test_a_topic_that_was_created_is_served(pulsar, namespace, change):
    topic = f"{namespace}/created"
    change("topics", "create", f"persistent://{topic}")
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    assert consume(pulsar, topic, 10) == PAYLOADS
