"""`…/BUNDLE/split`, `…/BUNDLE/topicHashPositions`: bundles are divided, and the places of their topics shown.

A split writes the namespace's local policies, then the bundle is unloaded. Until that is done, its owner serves the
topics of its parts: a lookup asks for the owner of a topic, whatever the bundle is that its node names.
"""

import json
from collections.abc import Sequence
from typing import Any

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
from mledger.broker.admin_rest.refusals import bad_request, conflict, not_built, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.lookup.bundle_ranges import bundle_names, decode_boundaries, hashes_of, plan_bundle, topic_hash
from mledger.broker.lookup.unload_request import check_unloads, request_bundle_unload
from mledger.ledgers.bundles import NAMESPACES
from mledger.metastore.records.paths import LOCAL_POLICIES, TopicName
from mledger.metastore.store import MetadataStore

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


def plan_split(boundaries: Sequence[int], bundle: str, positions: Sequence[int]) -> list[int]:
    """The boundaries once the bundle is divided there. AdminRefusal if another split came first, or for too many."""
    if bundle not in bundle_names(boundaries):
        raise conflict(f"the bundle {bundle} was split meanwhile")
    if len(boundaries) - 1 + len(positions) > MOST_BUNDLES:
        raise precondition(f"a namespace has {MOST_BUNDLES} bundles at most")
    return sorted([*boundaries, *positions])


class BundleResource:
    """Answers for the bundles of namespaces."""

    def __init__(self, store: MetadataStore, nodes: PoliciesNodes) -> None:
        self._store, self._nodes = store, nodes

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
        if algorithm == BY_RATES:
            raise not_built(f"{BY_RATES}: use {BY_TOPICS}")
        wanted = _positions(call.request.json())
        if algorithm == AT_POSITIONS and not wanted:
            raise precondition(f"With {AT_POSITIONS} split algorithm, splitBoundaries must not be empty")
        bundle = await self._bundle(call)
        hashes = [topic_hash(each) for each in await self._topics(call, bundle)] if algorithm == BY_TOPICS else []
        positions = plan_positions(algorithm, hashes_of(bundle), hashes, wanted)
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


def _positions(body: Any) -> list[int]:
    """The positions in a body. AdminRefusal."""
    if body is None:
        return []
    if not isinstance(body, list):
        raise bad_request("the body is not a list of positions")
    return [number_of(each, "a position", low=-MAX_LONG, most=MAX_LONG) for each in body]
