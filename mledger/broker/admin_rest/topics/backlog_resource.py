"""`…/clearBacklog`, `…/unsubscribe/SUBSCRIPTION` of a namespace or of a bundle: on each topic, by its owner."""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import quote

from mledger.admin.system_topics import is_system_topic
from mledger.admin.topic_names import list_topics
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error, plan_request_for
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_resource import ONE, ROOT
from mledger.broker.admin_rest.refusals import precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, AdminRequest
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.ownership import topic_path
from mledger.broker.lookup.bundle_ranges import bundle_names, plan_bundle
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataStore
from mledger.topics.backlog_quota import KEPT

_GONE = (HTTPStatus.NOT_FOUND,)
"""A topic without the subscription, or one that was deleted meanwhile, has no such backlog."""


class BacklogResource:
    """Answers for the backlogs of a namespace's stored topics, but for those that brokers use."""

    def __init__(self, store: MetadataStore, nodes: PoliciesNodes, fan_out: FanOut) -> None:
        self._store, self._nodes, self._fan_out = store, nodes, fan_out

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served; other brokers act on this one's word, so who may use single topics only may not."""
        admin = Access.NAMESPACE_ADMIN
        return [
            AdminRoute("POST", f"{of}/{path}", admin, action)
            for of in (ONE, f"{ONE}/{{bundle}}")
            for path, action in (
                ("clearBacklog", self.clear_all),
                ("clearBacklog/{subscription}", self.clear),
                ("unsubscribe/{subscription}", self.unsubscribe),
            )
        ]

    async def clear_all(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge everything on every subscription."""
        topics = await self._topics(call)
        listed = await self._fan_out.ask_all(
            [plan_request_for(call.request, "GET", topic_path(topic, "subscriptions")) for topic in topics]
        )
        wrong = plan_first_error([*listed, NO_CONTENT], _GONE)
        if wrong is not None:
            return wrong
        found = [answer.json() if answer.status is HTTPStatus.OK else [] for answer in listed]
        requests = [
            _plan_clear(call.request, topic, name)
            for topic, names in zip(topics, found, strict=True)
            for name in names
            if name not in KEPT
        ]
        return await self._done(requests)

    async def clear(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge everything on one subscription, of the topics that have it."""
        topics, name = await self._topics(call), call.values["subscription"]
        return await self._done([_plan_clear(call.request, topic, name) for topic in topics])

    async def unsubscribe(self, call: AdminCall) -> AdminAnswer:
        """Delete a subscription of the topics that have it; one with consumers stays."""
        name = quote(call.values["subscription"], safe="")
        topics = await self._topics(call)
        return await self._done(
            [plan_request_for(call.request, "DELETE", topic_path(each, f"subscription/{name}")) for each in topics]
        )

    async def _topics(self, call: AdminCall) -> list[TopicName]:
        """The topics of the path, partitions one by one. AdminRefusal (404, 412)."""
        namespace, bundle = call.namespace, call.values.get("bundle")
        await self._nodes.check_exists(namespace, "Namespace not found")
        boundaries = await self._nodes.boundaries(namespace)
        if bundle is not None and bundle not in bundle_names(boundaries):
            raise precondition(f"{namespace} has no bundle {bundle}: GET {ROOT}/{namespace}/bundles")
        topics = [each for each in await list_topics(self._store, namespace) if not is_system_topic(each)]
        return [each for each in topics if bundle in (None, plan_bundle(each, boundaries))]

    async def _done(self, requests: Sequence[AdminRequest]) -> AdminAnswer:
        wrong = plan_first_error([*await self._fan_out.ask_all(requests), NO_CONTENT], _GONE)
        return NO_CONTENT if wrong is None else wrong


def _plan_clear(request: AdminRequest, topic: TopicName, subscription: str) -> AdminRequest:
    return plan_request_for(request, "POST", topic_path(topic, f"subscription/{quote(subscription, safe='')}/skip_all"))
