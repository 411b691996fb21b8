"""The figures of all topics that a broker serves, by namespace, bundle and kind, as Pulsar's broker-stats have them.

They are those of `…/stats` under other names, without those that this broker does not keep. It has no entry filters.
"""

import asyncio
import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence

from mledger.broker.admin_rest.topics.figures.nonpersistent_stats import nonpersistent_stats_of
from mledger.broker.admin_rest.topics.figures.topic_stats import Figures, entries_before_read, stats_of
from mledger.broker.lookup.bundle_ranges import LAST_HASH, hashes_of, topic_hash
from mledger.broker.lookup.owned_bundles import Bundle
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.served_topic import ServedTopic
from mledger.metastore.records.paths import TopicName

Placed = Mapping[str, Mapping[str, Mapping[str, Sequence[TopicName]]]]
"""Topics by namespace, range of the bundle, and `persistent` or `non-persistent`."""

IN_A_ROW = 5
"""After so many topics, clients have their turn: a message needs some ten turns to be stored and answered."""
_PUBLISHER = (
    "msgRateIn",
    "msgThroughputIn",
    "averageMsgSize",
    "address",
    "producerId",
    "producerName",
    "connectedSince",
    "clientVersion",
    "metadata",
)
_CONSUMER = (
    "address",
    "consumerName",
    "availablePermits",
    "connectedSince",
    "msgRateOut",
    "msgThroughputOut",
    "msgRateRedeliver",
    "messageAckRate",
    "clientVersion",
    "metadata",
)
_INDIVIDUAL = ("Shared", "Key_Shared")
_OF_INDIVIDUAL = ("unackedMessages", "blockedConsumerOnUnackedMsgs")
_SUBSCRIPTION = (
    "msgBacklog",
    "msgRateExpired",
    "msgRateOut",
    "messageAckRate",
    "msgThroughputOut",
    "msgRateRedeliver",
    "type",
    "msgDropRate",
)
_TOPIC = {
    "averageMsgSize": "averageMsgSize",
    "msgRateIn": "msgRateIn",
    "msgRateOut": "msgRateOut",
    "msgInCount": "msgInCounter",
    "bytesInCount": "bytesInCounter",
    "msgOutCount": "msgOutCounter",
    "bytesOutCount": "bytesOutCounter",
    "msgThroughputIn": "msgThroughputIn",
    "msgThroughputOut": "msgThroughputOut",
    "storageSize": "storageSize",
    "backlogSize": "backlogSize",
}
"""Names here, and in `…/stats`."""
_NO_FILTERS = {
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
}


def plan_places(topics: Iterable[TopicName], bundles: Collection[Bundle]) -> Placed:
    """Where each topic is shown; one that is in none of `bundles`, which was just given up, is not."""
    ranges: dict[str, list[tuple[int, int, str]]] = {}
    for bundle in bundles:
        ranges.setdefault(bundle.namespace, []).append((*hashes_of(bundle.range), bundle.range))
    for found in ranges.values():
        found.sort()
    placed: dict[str, dict[str, dict[str, list[TopicName]]]] = {}
    for topic in sorted(topics, key=str):
        place, found = topic_hash(topic), ranges.get(topic.namespace_name, [])
        at = bisect_right(found, place, key=lambda each: each[0]) - 1
        if at >= 0 and (place < found[at][1] or found[at][1] == LAST_HASH):
            of_bundle = placed.setdefault(topic.namespace_name, {}).setdefault(found[at][2], {})
            of_bundle.setdefault(topic.domain, []).append(topic)
    return placed


def plan_topic(stats: Figures) -> Figures:
    """A topic's figures, from those of `…/stats`."""
    publishers = [{name: each[name] for name in _PUBLISHER} for each in stats["publishers"]]
    return {
        "publishers": publishers,
        "replication": {},
        "subscriptions": {name: _subscription(each) for name, each in stats["subscriptions"].items()},
        "producerCount": len(publishers),
        **{name: stats[found] for name, found in _TOPIC.items() if found in stats},
        "filteredEntriesCount": 0,
    }


def _subscription(found: Figures) -> Figures:
    individual = found["type"] in _INDIVIDUAL
    names = (*_CONSUMER, *(_OF_INDIVIDUAL if individual else ()))
    shown = {"consumers": [{name: each[name] for name in names} for each in found["consumers"]]}
    shown |= {name: found[name] for name in _SUBSCRIPTION if name in found} | _NO_FILTERS
    if "nonContiguousDeletedMessagesRanges" in found:
        shown["totalNonContiguousDeletedMessagesRange"] = found["nonContiguousDeletedMessagesRanges"]
        if individual:
            shown["unackedMessages"] = found["unackedMessages"]
    return shown


def _figures(topic: ServedTopic, broker: str, settings: BrokerSettings) -> Figures:
    if isinstance(topic, NonPersistentTopic):
        return plan_topic(nonpersistent_stats_of(topic, broker))
    assert isinstance(topic, BrokerTopic)
    shown = plan_topic(stats_of(topic, broker, settings))
    read = entries_before_read(topic)
    for name, each in shown["subscriptions"].items():
        if name in read:
            each["numberOfEntriesSinceFirstNotAckedMessage"] = read[name]
    return shown | {"pendingAddEntriesCount": sum(each.pending for each in topic.producers)}


async def encode_topics(
    topics: Mapping[TopicName, ServedTopic], bundles: Collection[Bundle], broker: str, settings: BrokerSettings
) -> bytes:
    """The JSON of all topics; it is made piece by piece, since clients wait meanwhile."""
    count, namespaces = 0, []
    for namespace, of_namespace in plan_places(topics, bundles).items():
        ranges = []
        for name, of_bundle in of_namespace.items():
            kinds = []
            for kind, names in of_bundle.items():
                shown = []
                for topic in names:
                    shown.append((str(topic), _json(_figures(topics[topic], broker, settings))))
                    count += 1
                    if count % IN_A_ROW == 0:
                        await asyncio.sleep(0)
                kinds.append((kind, _joined(shown)))
            ranges.append((name, _joined(kinds)))
        namespaces.append((namespace, _joined(ranges)))
    return _joined(namespaces)


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _joined(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """An object of these names, and values in JSON."""
    return b"{%s}" % b",".join(b"%s:%s" % (_json(name), value) for name, value in parts)
