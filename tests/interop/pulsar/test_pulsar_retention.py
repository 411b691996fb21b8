"""Nothing of ours deletes what the retention of a real broker's namespace or topic keeps (M10)."""

import itertools
from dataclasses import replace

import pytest
from msgspec import structs

import mledger
from mledger.broker.lookup.bundle_ranges import topic_hash
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName, cursor_path
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, ok
from tests.support.cli import mledger as command
from tests.support.java.pulsar_cluster import eventually
from tests.support.java.pulsar_load import consume, delivered, produce, subscribe
from tests.support.pulsar_entries import pulsar_entry

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEPT = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
A_LEDGER = 3
PAYLOADS = [b"%d" % number for number in range(3 * A_LEDGER)]
CONSUMED = PAYLOADS[: 2 * A_LEDGER]
"""Those in ledgers that the subscription has passed; it is in the third."""
_namespaces = itertools.count(1)


class Level:
    """Where retention is set: on namespaces, or on each topic of a namespace without it."""

    def __init__(self, pulsar, name):
        self.pulsar, self.name = pulsar, name

    def keep(self, namespace, topics):
        """Make retention keep everything of the topics. Creates their namespace."""
        if self.name == "namespace":
            self.pulsar.namespace(namespace.removeprefix("public/"), retention_policies=KEPT)
        else:
            self.pulsar.namespace(namespace.removeprefix("public/"))
            for topic in topics:
                self.pulsar.broker.ask("PUT", f"v2/persistent/{topic}")
                self.set([topic], KEPT)

    def set(self, topics, retention):
        """Set the retention of the topics, or of the namespace of them all. None is the default."""
        for path in {self._path(topic) for topic in topics}:
            if retention is None:
                self.pulsar.broker.ask("DELETE", path)
            else:
                self.pulsar.broker.ask("POST", path, retention)
        for topic in topics:
            self._wait(topic, retention)

    def _path(self, topic):
        namespace = topic.rpartition("/")[0]
        return (
            f"v2/namespaces/{namespace}/retention" if self.name == "namespace" else f"v2/persistent/{topic}/retention"
        )

    def _wait(self, topic, retention):
        expected = retention or {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
        eventually(
            lambda: applied(self.pulsar, topic) == expected, lambda: f"{retention}: {applied(self.pulsar, topic)}"
        )


def applied(pulsar, topic):
    """The retention that the broker applies."""
    return pulsar.broker.get(f"v2/persistent/{topic}/retention?applied=true")


@pytest.fixture(params=["namespace", "topic"])
def level(request, pulsar):
    return Level(pulsar, request.param)


@pytest.fixture
def give_up(pulsar):
    """Make the broker serve nothing of a topic's namespace."""

    def give_up(topic):
        pulsar.broker.ask("PUT", f"v2/namespaces/{topic.rpartition('/')[0]}/unload")

    return give_up


def bundle_of(topic):
    """Which of a namespace's four bundles a topic is in."""
    return topic_hash(TopicName.parse(f"persistent://{topic}")) >> 30


def new_topics(level, *names):
    """Topics in a namespace of their own, with everything of them kept.

    None shares a bundle with the topic of policies, which the broker's own reader may load again after an unload.
    """
    for number in _namespaces:
        namespace = f"public/kept-{number}"
        topics = [f"{namespace}/{name}" for name in names]
        if bundle_of(f"{namespace}/__change_events") not in map(bundle_of, topics):
            break
    level.keep(namespace, topics)
    return topics


def fill(pulsar, topic, payloads, a_ledger):
    """One ledger for each so many messages, by loading the topic each time."""
    subscribe(pulsar, topic)
    for start in range(0, len(payloads), a_ledger):
        produce(pulsar, topic, payloads[start : start + a_ledger])
        pulsar.unload(topic)


@pytest.fixture
def topic(pulsar, level, give_up, tmp_path, monkeypatch):
    """A topic that nobody serves: two ledgers consumed, one partly."""
    monkeypatch.chdir(tmp_path)
    (topic,) = new_topics(level, "topic")
    fill(pulsar, topic, PAYLOADS, A_LEDGER)
    consume(pulsar, topic, len(CONSUMED) + 1)
    give_up(topic)
    return topic


def ledgers(pulsar, topic):
    """The ledgers with entries."""
    described = answer("topics", "describe", f"persistent://{topic}", url=pulsar.url)
    return [ledger["ledger_id"] for ledger in described["ledgers"] if ledger["entries"]]


@pytest.fixture
def all_kept(pulsar, topic):
    """At the end every ledger still exists, and a new subscription receives their messages."""
    before = ledgers(pulsar, topic)
    assert len(before) == len(PAYLOADS) // A_LEDGER
    yield
    assert ledgers(pulsar, topic)[: len(before)] == before
    subscribe(pulsar, topic, "witness")
    assert consume(pulsar, topic, len(PAYLOADS), "witness") == PAYLOADS


def put(pulsar, path, change):
    """Write a node's data, changed by `change`."""

    async def main():
        async with await open_store(pulsar.url) as store:
            await store.put(path, change((await store.get(path)).data), ANY_VERSION)

    run(main())


@pytest.mark.usefixtures("all_kept")
@pytest.mark.parametrize(
    "words",
    [
        "topics trim TOPIC --yes",
        "topics produce TOPIC --count 2",
        "topics terminate TOPIC --yes",
        "topics set-properties TOPIC owner=alice --yes",
        "topics repair TOPIC --yes --min-age 0",
        "cursors create TOPIC made",
        "cursors reset TOPIC sub --to latest --yes",
        "cursors skip TOPIC sub 1 --yes",
        "cursors clear TOPIC sub --yes",
        "cursors delete TOPIC sub --yes",
        "cursors set-properties TOPIC sub owner=alice --yes",
        "cursors recover TOPIC --apply",
    ],
)
def test_no_command_removes_what_retention_keeps(pulsar, topic, words):
    ok(*words.replace("TOPIC", f"persistent://{topic}").split(), url=pulsar.url)


@pytest.mark.usefixtures("all_kept")
def test_trimming_after_the_end_of_the_last_subscription_removes_nothing_that_retention_keeps(pulsar, topic):
    ok("cursors", "delete", f"persistent://{topic}", "sub", "--yes", url=pulsar.url)
    ok("topics", "trim", f"persistent://{topic}", "--yes", url=pulsar.url)


@pytest.mark.usefixtures("all_kept")
def test_repairing_a_wrong_count_removes_nothing_that_retention_keeps(pulsar, topic):
    def miscount(data):
        info = decode_managed_ledger_info(data, topic).value
        first = replace(info.ledgers[0], entries=info.ledgers[0].entries + 1)
        return encode_managed_ledger_info(structs.replace(info, ledgers=(first, *info.ledgers[1:])))

    put(pulsar, TopicName.parse(f"persistent://{topic}").managed_ledger_path, miscount)
    mended = answer("topics", "repair", f"persistent://{topic}", "--yes", "--min-age", "0", url=pulsar.url)
    assert mended["mends"]


@pytest.mark.usefixtures("all_kept")
def test_repairing_a_cursor_removes_nothing_that_retention_keeps(pulsar, topic):
    name = TopicName.parse(f"persistent://{topic}").managed_ledger_name
    put(pulsar, cursor_path(name, "sub"), lambda _: b"\xff")
    made = answer("cursors", "repair", f"persistent://{topic}", "sub", "--to", "latest", "--yes", url=pulsar.url)
    assert made["mark_delete"]


def call(pulsar, topic, use, **options):
    """Open the topic with the library as its examples do, and close it."""

    async def main():
        async with mledger.open_cluster(pulsar.url) as cluster:
            opened = await cluster.open_topic(f"persistent://{topic}", **options)
            await opened.initialized()
            await use(opened)

    run(main(), timeout=120)


async def look(opened):
    pass


async def append(opened):
    await opened.append([pulsar_entry(0, b"ours")])


async def trim(opened):
    assert not (await opened.trim()).deletions


async def consume_and_trim(opened):
    await (await opened.open_cursor("sub")).clear_backlog()
    assert not (await opened.trim()).deletions


async def change_cursors(opened):
    await opened.open_cursor("made")
    await opened.delete_cursor("made")
    await opened.delete_cursor("sub")


@pytest.mark.usefixtures("all_kept")
@pytest.mark.parametrize(
    ("use", "asked"),
    [(look, None), (append, None), (trim, None), (look, True), (consume_and_trim, True), (change_cursors, True)],
    ids=lambda each: getattr(each, "__name__", f"trim={each}"),
)
def test_no_call_of_the_library_removes_what_retention_keeps(pulsar, topic, use, asked):
    call(pulsar, topic, use, trim=asked)


@pytest.mark.usefixtures("all_kept")
@pytest.mark.parametrize("use", [look, trim, consume_and_trim], ids=lambda use: use.__name__)
def test_taking_a_topic_from_its_live_broker_removes_nothing_that_retention_keeps(pulsar, topic, use):
    subscribe(pulsar, topic)  # makes the broker load it
    call(pulsar, topic, use, take_over=True, trim=True)


@pytest.mark.usefixtures("all_kept")
def test_a_topic_that_its_live_broker_serves_is_left_alone(pulsar, topic):
    subscribe(pulsar, topic)  # makes the broker load it
    with pytest.raises(mledger.OwnedElsewhere):
        call(pulsar, topic, trim)
    assert command("cursors", "clear", f"persistent://{topic}", "sub", "--yes", url=pulsar.url).code == 4


BIG = [bytes([number]) * 400_000 for number in range(5)]


@pytest.mark.parametrize(
    ("lowered", "left"),
    [({"retentionTimeInMinutes": -1, "retentionSizeInMB": 1}, 3), (None, 0)],
    ids=["lowered", "removed"],
)
def test_trimming_with_less_retention_removes_what_the_broker_would_remove(
    pulsar, level, give_up, tmp_path, monkeypatch, lowered, left
):
    monkeypatch.chdir(tmp_path)
    ours, theirs = topics = new_topics(level, "ours", "theirs")
    for topic in topics:
        fill(pulsar, topic, BIG, 1)
        consume(pulsar, topic, len(BIG))
    give_up(ours)
    level.set(topics, lowered)
    give_up(ours)
    refused = command("topics", "trim", f"persistent://{ours}", "--yes", url=pulsar.url)
    assert refused.code == (0 if lowered else 2)  # the default of its broker.conf is not known
    default = ("--set", "defaultRetentionTimeInMinutes=0")
    ok("topics", "trim", f"persistent://{ours}", "--yes", *default, url=pulsar.url)
    assert delivered(pulsar, ours) == BIG[len(BIG) - left :]
    subscribe(pulsar, theirs)  # makes the broker load it
    pulsar.broker.ask("POST", f"v2/persistent/{theirs}/trim")
    eventually(
        lambda: pulsar.internal_stats(theirs)["numberOfEntries"] <= left, lambda: f"{theirs} is trimmed by the broker"
    )
    assert delivered(pulsar, theirs) == delivered(pulsar, ours)


def test_the_retention_shown_is_the_brokers(pulsar, topic, level):
    described = answer("topics", "describe", f"persistent://{topic}", url=pulsar.url)
    shown = {
        "retentionTimeInMinutes": described["retention_ms"] // 60_000,
        "retentionSizeInMB": described["retention_mb"],
    }
    assert shown == applied(pulsar, topic) == KEPT
    assert level.name in described["retention_origin"]
