"""Our commands report the same of a topic as the broker's admin REST API."""

import pytest

from tests.support.aio import HANG_S
from tests.support.cli import answer, mledger, ok
from tests.support.java.pulsar_cluster import eventually
from tests.support.java.pulsar_load import consume, produce, subscribe
from tests.support.metadata.tree import tree

pytestmark = pytest.mark.interop

HEARD_S = 60.0
"""By then a broker has received the acknowledgements of closed clients."""
PAYLOADS = [b"%d" % number for number in range(10)]
COMPACTED = [("a", b"1"), ("b", b"2"), ("a", b"3")]
TIMES = {"timestamp", "creationDate", "modificationDate", "lastLedgerCreatedTimestamp", "lastLedgerSwitchTimestamp"}
"""Of an open ledger the broker shows the time of the call, and its times have no zeros at the end."""
OF_THE_LOADED = {"readPosition", "cursorLedger", "cursorLedgerLastEntry"}
"""What a cursor of a loaded topic has, and gives up when the topic is unloaded."""


@pytest.fixture(scope="module")
def namespace(pulsar):
    """Keeps everything, so that both sides see the same."""
    return pulsar.namespace("figures", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})


def theirs(pulsar, topic):
    """The broker's figures, in our words."""
    internal = pulsar.internal_stats(topic)
    stats = pulsar.broker.get(f"v2/persistent/{topic}/stats?getPreciseBacklog=true")
    return {
        "entries": internal["numberOfEntries"],
        "size": internal["totalSize"],
        "last_confirmed": internal["lastConfirmedEntry"],
        "ledgers": [ledger["ledgerId"] for ledger in internal["ledgers"]],
        "cursors": {
            name: (cursor["markDeletePosition"], cursor["totalNonContiguousDeletedMessagesRange"])
            for name, cursor in internal["cursors"].items()
        },
        "backlogs": {name: subscription["msgBacklog"] for name, subscription in stats["subscriptions"].items()},
    }


def ours(pulsar, topic):
    """Our figures."""
    described = answer("topics", "describe", f"persistent://{topic}", url=pulsar.url)
    cursors = answer("cursors", "list", f"persistent://{topic}", url=pulsar.url)
    return {
        "entries": described["entries"],
        "size": described["size"],
        "last_confirmed": described["last_confirmed"],
        "ledgers": [ledger["ledger_id"] for ledger in described["ledgers"]],
        "cursors": {cursor["cursor"]: (cursor["position"], cursor["holes"]) for cursor in cursors},
        "backlogs": {cursor["cursor"]: cursor["backlog"] for cursor in cursors},
    }


def stored(found, without=frozenset()):
    """An answer of the broker's or of ours, without times, what is `without`, and what is in no store."""
    if isinstance(found, list):
        return [stored(each, without) for each in found]
    if not isinstance(found, dict):
        return found
    left = TIMES | without
    return {key: stored(value, without) for key, value in found.items() if value is not None and key not in left}


def known(theirs, ours):
    """What the broker says of that of which we say something."""
    if not isinstance(ours, dict):
        return theirs
    return {key: known(theirs[key], value) for key, value in ours.items()}


def wait_for_backlogs(pulsar, topic, backlogs):
    """Return when the broker has received the acknowledgements that leave these."""

    def heard():
        return theirs(pulsar, topic)["backlogs"] == backlogs

    eventually(heard, lambda: f"backlogs {backlogs}: {theirs(pulsar, topic)}", HEARD_S)


def check_equal(pulsar, topic, backlogs):
    """The broker's figures, once it has received every acknowledgement, and ours, once it has written them."""
    wait_for_backlogs(pulsar, topic, backlogs)
    pulsar.settle(topic)
    expected, internal = theirs(pulsar, topic), pulsar.internal_stats(topic)
    pulsar.unload(topic)
    records = pulsar.broker.get(f"v2/persistent/{topic}/internal-info")
    before = tree(pulsar.url)
    assert ours(pulsar, topic) == expected
    assert stored(answer("topics", "info-internal", f"persistent://{topic}", url=pulsar.url)) == stored(records)
    shown = stored(answer("topics", "stats-internal", f"persistent://{topic}", url=pulsar.url), OF_THE_LOADED)
    assert shown == known(stored(internal), shown)
    after = tree(pulsar.url)
    for path in before.keys() - after.keys():  # ZooKeeper removes empty containers by itself, some time later
        assert (before.pop(path), topic in path) == ((0, b""), False), path
    assert after == before


def acknowledge(pulsar, topic, numbers, backlog, **options):
    """Receive everything, acknowledge these payloads, and stay until that leaves this backlog."""
    with pulsar.client() as client:
        consumer = client.subscribe(topic, "sub", **options)
        for _ in PAYLOADS:
            message = consumer.receive(int(HANG_S * 1000))
            if int(message.data()) in numbers:
                consumer.acknowledge(message)
        wait_for_backlogs(pulsar, topic, {"sub": backlog})


def test_subscriptions_behind_at_the_end_and_untouched(pulsar, namespace):
    topic = f"{namespace}/plain"
    for name in ("behind", "end", "untouched"):
        subscribe(pulsar, topic, name)
    produce(pulsar, topic, PAYLOADS)
    consume(pulsar, topic, 4, "behind")
    consume(pulsar, topic, 10, "end")
    check_equal(pulsar, topic, {"behind": 6, "end": 0, "untouched": 10})


def test_a_subscription_with_holes(pulsar, namespace):
    topic = f"{namespace}/holes"
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    acknowledge(pulsar, topic, {0, 1, 4, 6, 7}, 5)
    check_equal(pulsar, topic, {"sub": 5})


def test_a_partly_acknowledged_batch_is_still_backlog(pulsar, namespace):
    topic = f"{namespace}/batches"
    subscribe(pulsar, topic)
    with pulsar.client() as client:
        producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5)
        for payload in PAYLOADS:
            producer.send_async(payload, lambda *_: None)
        producer.flush()
    acknowledge(pulsar, topic, {0, 1, 2, 3, 4, 6, 8}, 1, batch_index_ack_enabled=True)
    check_equal(pulsar, topic, {"sub": 1})
    (cursor,) = answer("cursors", "list", f"persistent://{topic}", url=pulsar.url)
    assert cursor["partial_batches"] == 1


def test_a_topic_that_was_loaded_again_and_again(pulsar, namespace):
    topic = f"{namespace}/ledgers"
    subscribe(pulsar, topic)
    for _ in range(3):
        produce(pulsar, topic, PAYLOADS)
        pulsar.unload(topic)
    consume(pulsar, topic, 15)
    check_equal(pulsar, topic, {"sub": 15})


def test_a_terminated_topic(pulsar, namespace):
    topic = f"{namespace}/terminated"
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    ended = pulsar.broker.ask("POST", f"v2/persistent/{topic}/terminate")
    check_equal(pulsar, topic, {"sub": 10})
    described = answer("topics", "describe", f"persistent://{topic}", url=pulsar.url)
    assert described["terminated"] == f"{ended['ledgerId']}:{ended['entryId']}"


def test_the_partitions_of_a_partitioned_topic(pulsar, namespace):
    topic = f"{namespace}/partitioned"
    pulsar.broker.ask("PUT", f"v2/persistent/{topic}/partitions", 3)
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    for index in range(3):
        partition = f"{topic}-partition-{index}"
        check_equal(pulsar, partition, theirs(pulsar, partition)["backlogs"])
    described = answer("topics", "describe", f"persistent://{topic}", url=pulsar.url)
    assert described["entries"] == len(PAYLOADS)


def compact(pulsar, topic):
    pulsar.broker.ask("PUT", f"v2/persistent/{topic}/compaction")

    def done():
        status = pulsar.broker.get(f"v2/persistent/{topic}/compaction")
        assert status["status"] != "ERROR", status
        return status["status"] == "SUCCESS"

    eventually(done, lambda: f"{topic} is compacted")


def test_a_topic_that_was_compacted_twice_is_whole(pulsar, namespace):
    topic = f"{namespace}/compacted"
    subscribe(pulsar, topic)
    for _ in range(2):
        with pulsar.client() as client:
            producer = client.create_producer(topic, batching_enabled=False)
            for key, value in COMPACTED:
                producer.send(value, partition_key=key)
        compact(pulsar, topic)
    compacted = pulsar.internal_stats(topic)["compactedLedger"]["ledgerId"]
    check_equal(pulsar, topic, {"sub": 6, "__compaction": 0})
    cursor = answer("cursors", "describe", f"persistent://{topic}", "__compaction", url=pulsar.url)
    assert str(compacted) in str(cursor)
    checked = mledger("ledgers", "check", "--topic", f"persistent://{topic}", url=pulsar.url)
    assert checked.code == 0, checked.out + checked.err


def test_nothing_is_wrong_on_a_healthy_cluster_whose_topics_were_loaded_again(pulsar, namespace):
    topic = f"{namespace}/sound"
    subscribe(pulsar, topic)
    pulsar.broker.ask("PUT", f"v2/namespaces/{namespace}/unload")
    produce(pulsar, topic, PAYLOADS)
    pulsar.broker.ask("PUT", f"v2/namespaces/{namespace}/unload")
    found = answer("topics", "repair", "--namespace", namespace, "--dry-run", url=pulsar.url)
    assert [mend for mend in found["mends"] if mend["wrong"] != "ledger is an orphan"] == []
    assert found["left"] == []


def test_every_topic_of_the_broker_is_listed_and_no_other(pulsar, namespace):
    known = pulsar.broker.get(f"v2/persistent/{namespace}?includeSystemTopic=true")
    listed = answer("topics", "list", namespace, url=pulsar.url)
    assert sorted(each["topic"] for each in listed) == sorted(known)


def test_live_figures_and_what_is_next_are_the_broker_s(pulsar, namespace):
    topic = f"{namespace}/live"
    subscribe(pulsar, topic)
    produce(pulsar, topic, PAYLOADS)
    consume(pulsar, topic, 4)
    wait_for_backlogs(pulsar, topic, {"sub": 6})
    name = f"persistent://{topic}"
    with pulsar.client() as client:
        consumer = client.subscribe(topic, "sub")
        consumer.receive(int(HANG_S * 1000))
        stats = pulsar.broker.get(f"v2/persistent/{topic}/stats")
        assert known(stats, answer("topics", "stats", name, url=pulsar.url)) == stats
        (subscription,) = answer("topics", "subscriptions", name, url=pulsar.url)
        (held,) = answer("topics", "consumers", name, url=pulsar.url)
    expected = stats["subscriptions"]["sub"]
    (of_client,) = expected["consumers"]
    assert (subscription.pop("subscription"), subscription.pop("consumers")) == ("sub", 1)
    assert subscription == {key: expected.get(key) for key in subscription}
    assert held.pop("subscription") == "sub"
    assert held == known(of_client, held)
    peeked = ok("topics", "peek", name, "sub", "--count", 6, "--output", "json", url=pulsar.url).lines
    assert [each["payload"].encode() for each in peeked] == PAYLOADS[4:]
    read = ok("topics", "read", name, "--output", "json", url=pulsar.url).lines
    assert [each["payload"].encode() for each in read] == PAYLOADS
    assert read[-1]["position"] == pulsar.internal_stats(topic)["lastConfirmedEntry"]


def test_the_bookies_are_those_of_the_broker(pulsar):
    known_bookies = [each["bookieId"] for each in pulsar.broker.get("v2/bookies/all")["bookies"]]
    listed = answer("bookies", "list", url=pulsar.url)
    assert [each["bookie_id"] for each in listed] == sorted(known_bookies)
    assert answer("bookies", "cluster", url=pulsar.url)["writable"] == len(known_bookies)
