"""After our command changed a topic, the official client receives accordingly; the broker has given up the bundle."""

import re

import pytest

from tests.support.aio import HANG_S
from tests.support.cli import mledger
from tests.support.java.pulsar_cluster import eventually
from tests.support.java.pulsar_load import consume, delivered, produce, subscribe

pytestmark = pytest.mark.interop

OWNED = 4
"""The exit code of a change that is refused because the topic has an owner."""
PAYLOADS = [b"%d" % number for number in range(10)]


@pytest.fixture(scope="module")
def namespace(pulsar):
    """Keeps everything."""
    return pulsar.namespace("changes", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})


@pytest.fixture
def change(pulsar, namespace, tmp_path, monkeypatch):
    """Runs a changing command on a topic that nobody serves."""
    monkeypatch.chdir(tmp_path)

    refused = []

    def is_done(arguments, stdin):
        pulsar.broker.ask("PUT", f"v2/namespaces/{namespace}/unload")
        done = mledger(*arguments, url=pulsar.url, stdin=stdin)
        if done.code == OWNED and "serves its bundle" in done.err:  # the broker has it again, for its policy events
            refused.append(done.err)
            return False
        assert done.code == 0, done.err
        return True

    def run(*arguments, stdin=""):
        eventually(lambda: is_done(arguments, stdin), lambda: refused[-1])

    return run


@pytest.fixture
def topic(request, pulsar, namespace):
    """Ten messages and a subscription that has acknowledged five of them."""
    topic = f"{namespace}/{re.sub('[^a-z]+', '-', request.node.name)}"
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    consume(pulsar, topic, 5)
    return topic


def test_after_a_reset_to_the_earliest_entry_everything_is_delivered_again(pulsar, topic, change):
    change("cursors", "reset", f"persistent://{topic}", "sub", "--to", "earliest", "--yes")
    assert consume(pulsar, topic, 10) == PAYLOADS


def test_skipped_entries_are_not_delivered(pulsar, topic, change):
    change("cursors", "skip", f"persistent://{topic}", "sub", "2", "--yes")
    assert consume(pulsar, topic, 3) == PAYLOADS[7:]


def test_of_a_cleared_cursor_only_new_messages_are_delivered(pulsar, topic, change):
    change("cursors", "clear", f"persistent://{topic}", "sub", "--yes")
    produce(pulsar, topic, [b"next"])
    assert consume(pulsar, topic, 1) == [b"next"]


def test_a_deleted_cursor_is_no_longer_a_subscription(pulsar, topic, change):
    change("cursors", "delete", f"persistent://{topic}", "sub", "--yes")
    assert pulsar.internal_stats(topic)["cursors"] == {}


def test_a_created_cursor_is_a_subscription_from_there(pulsar, topic, change):
    change("cursors", "create", f"persistent://{topic}", "made", "--at", "earliest")
    assert consume(pulsar, topic, 10, "made") == PAYLOADS


def test_produced_messages_are_delivered(pulsar, topic, change):
    change("topics", "produce", f"persistent://{topic}", stdin="one\ntwo\n")
    assert consume(pulsar, topic, 7) == [*PAYLOADS[5:], b"one", b"two"]


def received(pulsar, topic, count):
    """Key, properties and payload of the subscription's next messages, and the place of each in its entry."""
    with pulsar.client() as client:
        consumer = client.subscribe(topic, "sub")
        found = [consumer.receive(int(HANG_S * 1000)) for _ in range(count)]
        return [
            (each.partition_key(), each.properties(), each.data(), each.message_id().batch_index()) for each in found
        ]


@pytest.mark.parametrize("compression", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_keys_and_properties_of_produced_messages_are_delivered(pulsar, topic, change, compression):
    consume(pulsar, topic, 5)
    words = ("--key-separator", "=", "--property", "source=seq", "--property", "run=1", "--compression", compression)
    change("topics", "produce", f"persistent://{topic}", *words, stdin="a=one\nb=two\n")
    properties = {"source": "seq", "run": "1"}
    assert received(pulsar, topic, 2) == [("a", properties, b"one", -1), ("b", properties, b"two", -1)]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_batches_are_delivered_message_by_message(pulsar, topic, change, compression):
    consume(pulsar, topic, 5)
    words = ("--batch", "2", "--key", "all", "--property", "source=seq", "--compression", compression)
    change("topics", "produce", f"persistent://{topic}", *words, stdin="one\ntwo\nthree\n")
    properties = {"source": "seq"}
    first, second, third = received(pulsar, topic, 3)
    assert (first, second) == (("all", properties, b"one", 0), ("all", properties, b"two", 1))
    assert third[:3] == ("all", properties, b"three")


def test_of_a_truncated_topic_only_new_messages_are_delivered(pulsar, topic, change):
    change("topics", "truncate", f"persistent://{topic}", "--yes")
    assert delivered(pulsar, topic) == []
    produce(pulsar, topic, [b"next"])
    assert consume(pulsar, topic, 1) == [b"next"]


def test_after_the_undo_of_a_reset_the_subscription_continues_where_it_was(pulsar, topic, change):
    change("cursors", "reset", f"persistent://{topic}", "sub", "--to", "earliest", "--yes", "--undo-file", "reset.json")
    change("undo", "reset.json", "--yes")
    assert consume(pulsar, topic, 5) == PAYLOADS[5:]


def test_a_terminated_topic_accepts_no_more_and_is_delivered_to_its_end(pulsar, topic, change):
    change("topics", "terminate", f"persistent://{topic}", "--yes")
    assert consume(pulsar, topic, 5) == PAYLOADS[5:]
    with pytest.raises(Exception, match="Terminated"):
        produce(pulsar, topic, [b"late"])


def test_trimming_a_topic_leaves_what_retention_keeps(pulsar, topic, change):
    consume(pulsar, topic, 5)
    change("topics", "trim", f"persistent://{topic}", "--yes")
    assert delivered(pulsar, topic) == PAYLOADS


def test_of_a_topic_without_a_dropped_ledger_the_rest_is_delivered(pulsar, topic, change):
    pulsar.unload(topic)
    produce(pulsar, topic, [b"next"])
    first, *_ = pulsar.internal_stats(topic)["ledgers"]
    change("topics", "drop-ledgers", f"persistent://{topic}", first["ledgerId"], "--yes")
    assert delivered(pulsar, topic) == [b"next"]
    assert consume(pulsar, topic, 1) == [b"next"]


def test_a_deleted_topic_begins_anew(pulsar, topic, change):
    change("topics", "delete", f"persistent://{topic}", "--yes")
    subscribe(pulsar, topic)
    produce(pulsar, topic, [b"anew"])
    assert delivered(pulsar, topic) == consume(pulsar, topic, 1) == [b"anew"]


def test_properties_are_shown_by_the_broker_and_move_nothing(pulsar, topic, change):
    change("topics", "set-properties", f"persistent://{topic}", "owner=alice", "--yes")
    change("cursors", "set-properties", f"persistent://{topic}", "sub", "team=red", "--yes")
    assert pulsar.broker.get(f"v2/persistent/{topic}/properties") == {"owner": "alice"}
    assert pulsar.broker.get(f"v2/persistent/{topic}/subscription/sub/properties") == {"team": "red"}
    assert consume(pulsar, topic, 5) == PAYLOADS[5:]


def test_after_a_recovery_of_its_cursors_the_subscription_continues_where_it_was(pulsar, topic, change):
    change("cursors", "recover", f"persistent://{topic}", "--apply")
    assert consume(pulsar, topic, 5) == PAYLOADS[5:]


def test_the_broker_of_others_is_not_asked_to_unload_and_its_clients_go_on(pulsar, topic):
    with pulsar.client() as client:
        consumer = client.subscribe(topic, "sub")
        refused = mledger("topics", "unload", f"persistent://{topic}", url=pulsar.url)
        assert (refused.code, "that broker's own tools" in refused.err) == (OWNED, True), refused.err
        client.create_producer(topic).send(b"next")
        received = [consumer.receive(int(HANG_S * 1000)).data() for _ in range(6)]
    assert received == [*PAYLOADS[5:], b"next"]


def test_a_created_topic_is_served(pulsar, namespace, change):
    topic = f"{namespace}/created"
    change("topics", "create", f"persistent://{topic}")
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    assert consume(pulsar, topic, 10) == PAYLOADS
