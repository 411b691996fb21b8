"""`…/BUNDLE/split`, `…/BUNDLE/topicHashPositions`: bundles are divided, and the places of their topics shown.

A split writes the namespace's local policies, then the bundle is unloaded. Until that is done, its owner serves the
topics of its parts: a lookup asks for the owner of a topic, whatever the bundle is that its node names.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from mledger.admin.topic_names import list_topics
from mledger.broker.admin_rest.body_checks import MAX_LONG, number_of
from mledger.broker.admin_rest.json_node import JsonObject, change_object
from mledger.broker.admin_rest.namespaces.policies_node import (
    LOCAL_DEFAULTS,
    MOST_BUNDLES,
    PoliciesNodes,
    bundles_data,
)
from mledger.broker.admin_rest.namespaces.policy_resource import ONE, ROOT
from mledger.broker.admin_rest.refusals import bad_request, conflict, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.lookup.bundle_ranges import bundle_names, decode_boundaries, hashes_of, plan_bundle, topic_hash
from mledger.broker.lookup.unload_request import check_unloads, request_bundle_unload
from mledger.broker.topics.client_rates import rates_in, rates_out
from mledger.broker.topics.served_topic import ServedTopic
from mledger.ledgers.bundles import NAMESPACES
from mledger.metastore.records.paths import LOCAL_POLICIES, TopicName

EVENLY = "range_equally_divide"
BY_TOPICS = "topic_count_equally_divide"
AT_POSITIONS = "specified_positions_divide"
BY_RATES = "flow_or_qps_equally_divide"
ALGORITHMS = (EVENLY, BY_TOPICS, AT_POSITIONS, BY_RATES)


def plan_positions(algorithm: str, bundle: tuple[int, int], hashes: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Where a bundle is divided, in order; nowhere if that would leave it as it is. `hashes` are its topics'."""
    first, end = bundle
    found: Sequence[int] = ()
    if algorithm == AT_POSITIONS:
        found = wanted
    elif algorithm == EVENLY:
        found = (first + (end - first) // 2,)
    elif len(hashes) > 1:
        places = sorted(hashes)
        below, above = places[len(places) // 2 - 1], places[len(places) // 2]
        found = (below + (above - below) // 2,)
    return sorted({each for each in found if first < each < end})


class TopicWork(NamedTuple):
    """The hash of a topic, and what it gets from producers and sends to consumers a second: messages and bytes."""

    place: int
    messages: float
    size: float


class BundleRates(NamedTuple):
    """How much the parts of a bundle have to do a second at most, and by how much more a bundle is not divided yet."""

    messages: int
    size: int
    tolerance_percent: int


def plan_positions_by_rates(bundle: tuple[int, int], loads: Sequence[TopicWork], most: BundleRates) -> list[int]:
    """Where a bundle is divided so that no part has more to do than it may, unless by a single topic.

    As Pulsar's FlowOrQpsEquallyDivideBundleSplitAlgorithm. Nowhere if the bundle itself has not more to do, or if only
    one topic has anything to do.
    """
    busy = sorted(each for each in loads if each.messages > 0 or each.size > 0)
    factor = 1 + most.tolerance_percent / 100
    few = sum(each.messages for each in busy) < most.messages * factor
    if len(busy) < 2 or (few and sum(each.size for each in busy) < most.size * factor):
        return []
    found, messages, size = [], busy[0].messages, busy[0].size
    for before, topic in pairwise(busy):
        messages, size = messages + topic.messages, size + topic.size
        if messages > most.messages or size > most.size:
            found.append(before.place + (topic.place - before.place) // 2 + 1)
            messages, size = topic.messages, topic.size
    first, end = bundle
    return sorted({each for each in found if first < each < end})


def plan_split(boundaries: Sequence[int], bundle: str, positions: Sequence[int]) -> list[int]:
    """The boundaries once the bundle is divided there. AdminRefusal if another split came first, or for too many."""
    if bundle not in bundle_names(boundaries):
        raise conflict(f"the bundle {bundle} was split meanwhile")
    if len(boundaries) - 1 + len(positions) > MOST_BUNDLES:
        raise precondition(f"a namespace has {MOST_BUNDLES} bundles at most")
    return sorted([*boundaries, *positions])


class BundleResource:
    """Answers for the bundles of namespaces."""

    def __init__(
        self,
        broker: ServedBroker,
        nodes: PoliciesNodes,
        check_serves: Callable[[AdminCall, TopicName], Awaitable[None]],
    ) -> None:
        """`check_serves` sends a client to the broker that serves a topic, unless that is this one."""
        self._broker, self._store = broker, broker.owners.store
        self._nodes, self._check_serves = nodes, check_serves

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        return [
            AdminRoute("PUT", f"{ONE}/{{bundle}}/split", Access.SUPER_USER, self.split),
            AdminRoute("GET", f"{ONE}/{{bundle}}/topicHashPositions", Access.NAMESPACE_ADMIN, self.positions),
        ]

    async def split(self, call: AdminCall) -> AdminAnswer:
        """Divide a bundle; its topics are closed, and opened again by the owners of its parts."""
        algorithm = call.request.query.get("splitAlgorithmName") or EVENLY
        if algorithm not in ALGORITHMS:
            raise precondition(
                f"Unsupported namespace bundle split algorithm, supported algorithms are [{', '.join(ALGORITHMS)}]"
            )
        wanted = _positions(call.request.json())
        if algorithm == AT_POSITIONS and not wanted:
            raise precondition(f"With {AT_POSITIONS} split algorithm, splitBoundaries must not be empty")
        bundle = await self._bundle(call)
        positions = await self._planned(call, algorithm, bundle, wanted)
        if not positions:
            return NO_CONTENT
        owner = f"{NAMESPACES}/{call.namespace}/{bundle}"
        await check_unloads(self._store, owner)
        await self._nodes.ensure(call.namespace)  # one with local policies only counts as one that is being deleted
        before = await self._nodes.boundaries(call.namespace)
        path = f"{LOCAL_POLICIES}/{call.namespace}"

        def change(found: JsonObject | None) -> JsonObject:
            stored = before if not found else decode_boundaries(json.dumps(found).encode(), path)
            parts = bundles_data(plan_split(stored, bundle, positions))
            return {**LOCAL_DEFAULTS, **(found or {}), "bundles": parts}

        await change_object(self._store, path, change)
        await request_bundle_unload(self._store, owner)
        return NO_CONTENT

    async def _planned(self, call: AdminCall, algorithm: str, bundle: str, wanted: Sequence[int]) -> list[int]:
        """Where the bundle is to be divided; by rates, the broker that serves its topics says so."""
        topics = await self._topics(call, bundle) if algorithm in (BY_TOPICS, BY_RATES) else []
        if algorithm != BY_RATES:
            return plan_positions(algorithm, hashes_of(bundle), [topic_hash(each) for each in topics], wanted)
        if topics:
            await self._check_serves(call, topics[0])
        settings, boundaries = self._broker.settings, await self._nodes.boundaries(call.namespace)
        most = BundleRates(
            settings.bundle_messages_per_s, settings.bundle_bytes_per_s, settings.bundle_rate_tolerance_percent
        )
        opened = [each for each in self._broker.topics.open if each.name.namespace_name == call.namespace]
        loads = [_load(each) for each in opened if plan_bundle(each.name, boundaries) == bundle]
        return plan_positions_by_rates(hashes_of(bundle), loads, most)

    async def positions(self, call: AdminCall) -> AdminAnswer:
        """The hashes of a bundle's stored topics, or of those of them that `topics` names."""
        bundle = await self._bundle(call)
        found = {str(each): topic_hash(each) for each in await self._topics(call, bundle)}
        if named := [each for each in call.request.query.get("topics", "").split(",") if each]:
            found = {name: place for name, place in found.items() if name in named}
        return json_answer({"namespace": call.namespace, "bundle": bundle, "topicHashPositions": found})

    async def _bundle(self, call: AdminCall) -> str:
        """The bundle of the path. AdminRefusal (404, 412)."""
        await self._nodes.check_exists(call.namespace, "Namespace not found")
        bundle, boundaries = call.values["bundle"], await self._nodes.boundaries(call.namespace)
        if bundle not in bundle_names(boundaries):
            raise precondition(f"{call.namespace} has no bundle {bundle}: GET {ROOT}/{call.namespace}/bundles")
        return bundle

    async def _topics(self, call: AdminCall, bundle: str) -> list[TopicName]:
        boundaries = await self._nodes.boundaries(call.namespace)
        topics = await list_topics(self._store, call.namespace)
        return [each for each in topics if plan_bundle(each, boundaries) == bundle]


def _load(topic: ServedTopic) -> TopicWork:
    published = rates_in(topic.producers)
    sent = rates_out(each for subscription in topic.subscriptions for each in subscription.consumers)
    return TopicWork(topic_hash(topic.name), published.messages + sent.messages, published.size + sent.size)


def _positions(body: Any) -> list[int]:
    """The positions in a body. AdminRefusal."""
    if body is None:
        return []
    if not isinstance(body, list):
        raise bad_request("the body is not a list of positions")
    return [number_of(each, "a position", low=-MAX_LONG, most=MAX_LONG) for each in body]
