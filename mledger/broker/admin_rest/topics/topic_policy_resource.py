"""`/admin/v2/persistent/TENANT/NAMESPACE/TOPIC/…`: each policy of a topic, read and changed by itself."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from mledger.admin.policies.policy_events import PolicyRecord, PolicyScope
from mledger.admin.policies.topic_policies import NamespacePolicies
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error, plan_request_for
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_table import checked_quota, quota_kind
from mledger.broker.admin_rest.refusals import AdminRefusal, not_allowed, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, AdminRequest, json_answer
from mledger.broker.admin_rest.route_table import EVERYTHING, AdminRoute
from mledger.broker.admin_rest.topics.applied_policies import APPLIED_POLICIES, AppliedPolicies
from mledger.broker.admin_rest.topics.ownership import ONE, TopicOwnership, no_topic, topic_path
from mledger.broker.admin_rest.topics.policy_writer import PolicyWriter
from mledger.broker.admin_rest.topics.topic_policy_table import (
    QUOTAS,
    TOPIC_POLICIES,
    TOPIC_POLICIES_NOT_FOLLOWED,
    TopicPolicy,
    plan_subscription_changes,
    plan_subscription_rate,
    plan_topic_changes,
    plan_topic_quotas,
    plan_topic_value,
    shown_quotas,
)
from mledger.broker.connections.served_broker import ServedBroker
from mledger.cluster import Cluster
from mledger.metastore.cluster.service_policies import QuotaKind
from mledger.metastore.records.paths import TopicName

ADMIN = Access.NAMESPACE_ADMIN
_OTHERS = {"maxMessageSize": Access.TENANT_ADMIN}
"""Policies for which Pulsar asks for the administration of the tenant itself."""
ALL_POLICIES = "policies"
SCOPE = "isGlobal"
APPLIED = "applied"
LARGEST_MESSAGE = "maxMessageSize"
_RATE_OF_EACH = next(policy for policy in TOPIC_POLICIES if policy.path == "subscriptionDispatchRate")
DISABLED = "Topic level policies is disabled, to enable the topic level policy and retry."
TOO_LARGE = (
    "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the broker-level"
)
"""Pulsar's words, both."""


class TopicPolicyResource:
    """Answers for the policies of the topics of `cluster`: any broker reads them, `writer` changes them."""

    def __init__(
        self,
        broker: ServedBroker,
        cluster: Cluster,
        nodes: PoliciesNodes,
        ownership: TopicOwnership,
        writer: PolicyWriter,
        fan_out: FanOut,
    ) -> None:
        self._broker, self._cluster, self._ownership = broker, cluster, ownership
        self._writer, self._fan_out = writer, fan_out
        self._applied = AppliedPolicies(broker, cluster, nodes)

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served, and what is not."""
        found = [
            AdminRoute("DELETE", f"{ONE}/{ALL_POLICIES}", ADMIN, self.remove_all),
            AdminRoute("GET", f"{ONE}/backlogQuotaMap", ADMIN, self.quotas),
            AdminRoute("POST", f"{ONE}/backlogQuota", ADMIN, self.set_quota),
            AdminRoute("DELETE", f"{ONE}/backlogQuota", ADMIN, self.remove_quota),
        ]
        for policy in TOPIC_POLICIES:
            path, access = f"{ONE}/{policy.path}", _OTHERS.get(policy.path, ADMIN)
            found.append(AdminRoute("GET", path, access, partial(self.show, policy)))
            found.append(AdminRoute(policy.setter, path, access, partial(self.set, policy)))
            if policy.removable:
                found.append(AdminRoute("DELETE", path, access, partial(self.remove, policy)))
        one = f"{ONE}/{{subscription}}/dispatchRate"
        found.append(AdminRoute("GET", one, ADMIN, self.subscription_rate))
        found.append(AdminRoute("POST", one, ADMIN, self.set_subscription_rate))
        found.append(AdminRoute("DELETE", one, ADMIN, self.remove_subscription_rate))
        for path in TOPIC_POLICIES_NOT_FOLLOWED:
            found.append(AdminRoute("*", f"{ONE}/{path}", ADMIN))
            found.append(AdminRoute("*", f"{ONE}/{path}/{EVERYTHING}", ADMIN))
        return found

    async def show(self, policy: TopicPolicy, call: AdminCall) -> AdminAnswer:
        """The value of a policy; without a body if it is not set. With `applied` what holds for the topic."""
        await self._check(call)
        found = await self._fields(call)
        if call.request.flag(APPLIED) and policy.path in APPLIED_POLICIES:
            return json_answer(await self._applied.value(policy, call, found))
        value = plan_topic_value(policy, found)
        return NO_CONTENT if value is None and policy.no_content else json_answer(value)

    async def set(self, policy: TopicPolicy, call: AdminCall) -> AdminAnswer:
        """Set a policy."""
        await self._check(call)
        if policy.parameter:
            body: Any = call.request.query.get(policy.parameter)
        else:
            body = call.request.json(required=policy.required)
        value = policy.check(body)
        if policy.path == LARGEST_MESSAGE and value is not None and value > self._broker.max_message_size:
            raise precondition(TOO_LARGE)
        return await self._change(policy, call, value)

    async def remove(self, policy: TopicPolicy, call: AdminCall) -> AdminAnswer:
        """Leave a policy to the namespace."""
        await self._check(call)
        return await self._change(policy, call, None)

    async def remove_all(self, call: AdminCall) -> AdminAnswer:
        """Remove all policies of a topic, which may be deleted already: of both scopes, unless one is given."""
        if call.topic.partition_index is not None:
            raise _no_partition()
        if SCOPE in call.request.query:
            await self._writer.remove(call, _scope(call))
            return NO_CONTENT
        path = topic_path(call.topic, ALL_POLICIES)
        # one request each: different brokers may serve the partitions of __change_events that hold them
        requests = [plan_request_for(call.request, "DELETE", path, query={SCOPE: each}) for each in ("false", "true")]
        wrong = plan_first_error(await self._fan_out.ask_all(requests))
        return NO_CONTENT if wrong is None else wrong

    async def _change(self, policy: TopicPolicy, call: AdminCall, value: Any) -> AdminAnswer:
        def plan(record: PolicyRecord | None, _: NamespacePolicies) -> Mapping[str, Any] | None:
            if record is None and value is None:
                return None
            return plan_topic_changes(policy, {} if record is None else record.fields, value)

        await self._writer.change(call, _scope(call), plan)
        return NO_CONTENT

    async def subscription_rate(self, call: AdminCall) -> AdminAnswer:
        """The dispatch rate of one subscription; with `applied` what holds for it."""
        await self._check(call)
        found, name = await self._fields(call), call.values["subscription"]
        value = plan_subscription_rate(found, name)
        if value is None and call.request.flag(APPLIED):
            value = plan_subscription_rate(await self._applied.for_all_clusters(call), name)
            value = await self._applied.value(_RATE_OF_EACH, call, found) if value is None else value
        return json_answer(value)

    async def set_subscription_rate(self, call: AdminCall) -> AdminAnswer:
        """Set the dispatch rate of one subscription, which need not exist; one that is no limit changes nothing."""
        await self._check(call)
        body = call.request.json()
        value = None if body is None else _RATE_OF_EACH.check(body)
        if value is None or (value["dispatchThrottlingRateInMsg"] <= 0 and value["dispatchThrottlingRateInByte"] <= 0):
            return NO_CONTENT
        return await self._change_subscription_rate(call, value)

    async def remove_subscription_rate(self, call: AdminCall) -> AdminAnswer:
        """Leave the dispatch rate of one subscription to what holds for all."""
        await self._check(call)
        return await self._change_subscription_rate(call, None)

    async def _change_subscription_rate(self, call: AdminCall, value: dict[str, Any] | None) -> AdminAnswer:
        name = call.values["subscription"]

        def plan(record: PolicyRecord | None, _: NamespacePolicies) -> Mapping[str, Any] | None:
            fields = {} if record is None else record.fields
            if value is None and plan_subscription_rate(fields, name) is None:
                return None
            return plan_subscription_changes(fields, name, value)

        await self._writer.change(call, _scope(call), plan)
        return NO_CONTENT

    async def quotas(self, call: AdminCall) -> AdminAnswer:
        """The backlog quotas by kind."""
        await self._check(call)
        found = shown_quotas((await self._fields(call)).get(QUOTAS) or {})
        if call.request.flag(APPLIED) and not found:
            found = await self._applied.quotas(call)
        return json_answer(found)

    async def set_quota(self, call: AdminCall) -> AdminAnswer:
        """Set a backlog quota."""
        await self._check(call)
        body = call.request.json()
        return await self._change_quota(call, None if body is None else checked_quota(body, f"topic[{call.topic}]"))

    async def remove_quota(self, call: AdminCall) -> AdminAnswer:
        """Remove a backlog quota."""
        await self._check(call)
        return await self._change_quota(call, None)

    async def _change_quota(self, call: AdminCall, value: dict[str, Any] | None) -> AdminAnswer:
        kind = quota_kind(call.request.query.get("backlogQuotaType", QuotaKind.SIZE.value))

        def plan(record: PolicyRecord | None, found: NamespacePolicies) -> Mapping[str, Any] | None:
            if record is None and value is None:
                return None
            return plan_topic_quotas({} if record is None else record.fields, kind, value, found.namespace.retention)

        await self._writer.change(call, _scope(call), plan)
        return NO_CONTENT

    async def _fields(self, call: AdminCall) -> Mapping[str, Any]:
        """All fields of the topic's record."""
        found = await self._cluster.policies.of_namespace(call.topic)
        record = found.topics.record(call.topic, _scope(call))
        return {} if record is None else record.fields

    async def _check(self, call: AdminCall) -> None:
        """Raise AdminRefusal for a partition, for a topic that does not exist, and where topics have no policies."""
        if not self._cluster.config.topic_level_policies:
            raise not_allowed(DISABLED)
        topic = call.topic
        if topic.partition_index is not None:
            raise _no_partition()
        if not (await self._ownership.partitions(topic) or await self._ownership.exists(topic)):
            raise no_topic(topic)


async def remove_policies(fan_out: FanOut, request: AdminRequest, topic: TopicName) -> None:
    """Remove the policies of a topic that was just deleted. AdminRefusal, which says so, if that fails."""
    answer = await fan_out.ask(plan_request_for(request, "DELETE", topic_path(topic, ALL_POLICIES)))
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise AdminRefusal(
            answer.status,
            f"{topic} is deleted, but its policies are not, and a topic with its name would have them "
            f"({answer.body.decode(errors='replace')}): send DELETE {topic_path(topic, ALL_POLICIES)}",
        )


def _scope(call: AdminCall) -> PolicyScope:
    return PolicyScope.GLOBAL if call.request.flag(SCOPE) else PolicyScope.LOCAL


def _no_partition() -> AdminRefusal:
    return precondition("Not allowed to set/get topic policy for a partition")
