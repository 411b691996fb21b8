"""`/console/topics/…`: a topic, its subscriptions one by one, its messages, and what a restart would do."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from mledger.broker.admin_rest.refusals import AdminRefusal, not_found
from mledger.broker.admin_rest.requests import ADMIN, Access, AdminAnswer, AdminCall
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.console.admin_client import AdminClient, PlannedRequest, at_subscription, at_topic
from mledger.broker.console.changes.change_plan import ChangeSubject
from mledger.broker.console.changes.subscription_changes import SUBSCRIPTION_CHANGES
from mledger.broker.console.changes.topic_changes import WHOLE_TOPIC_CHANGES, TopicChanges
from mledger.broker.console.console_context import ConsoleContext, topic_of, whole_number
from mledger.broker.console.console_session import PATH
from mledger.broker.console.message_view import Schema, ShownEntry, plan_entry, schema_version
from mledger.broker.console.pages.change_pages import offered
from mledger.broker.console.policy_view import plan_policies
from mledger.broker.console.restart_view import plan_restart
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName

ONE = f"{PATH}/topics/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}"
SUBSCRIPTION = f"{ONE}/subscriptions/{{subscription}}"
MOST_PEEKED = 20
LAST_PLACE = 1_000_000_000
LEDGERS_SHOWN = 200


class TopicPages:
    """Pages about one topic."""

    def __init__(self, context: ConsoleContext, changes: TopicChanges) -> None:
        self._context, self._changes = context, changes

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        return [
            AdminRoute("GET", ONE, Access.ANYONE, self.topic),
            AdminRoute("GET", f"{ONE}/figures", Access.ANYONE, self.topic_figures),
            AdminRoute("GET", f"{ONE}/restart", Access.ANYONE, self.restart),
            AdminRoute("GET", f"{ONE}/messages", Access.ANYONE, self.messages),
            AdminRoute("GET", SUBSCRIPTION, Access.ANYONE, self.subscription),
            AdminRoute("GET", f"{SUBSCRIPTION}/figures", Access.ANYONE, self.subscription_figures),
            AdminRoute("GET", f"{SUBSCRIPTION}/messages", Access.ANYONE, self.backlog),
        ]

    async def topic(self, call: AdminCall) -> AdminAnswer:
        """A topic, or the partitions of one."""
        topic, client = topic_of(call), self._context.client(call.request)
        subject = ChangeSubject(topic.namespace_name, topic)
        partitions = await self._partitions(client, topic)
        if partitions:
            stats = await client.get(at_topic(topic, "partitioned-stats"))
            return await self._context.page(
                call.request,
                "partitioned.html",
                topic=topic,
                partitions=[topic.partition(index) for index in range(partitions)],
                stats=stats,
                changes=await offered(client, WHOLE_TOPIC_CHANGES, subject),
            )
        internal = await client.get(at_topic(topic, "internalStats"))
        return await self._context.page(
            call.request,
            "topic.html",
            topic=topic,
            stats=await client.get(at_topic(topic, "stats")),
            internal=internal,
            ledgers=internal["ledgers"][-LEDGERS_SHOWN:],
            policies=await self._policies(client, topic),
            schema=await self._schema(client, topic, None),
            may_peek=topic.is_persistent and await client.may(PlannedRequest("GET", at_topic(topic, "examinemessage"))),
            changes=await offered(client, self._changes.kinds, subject) if topic.is_persistent else [],
        )

    async def topic_figures(self, call: AdminCall) -> AdminAnswer:
        """The part of the topic's page that moves."""
        topic, client = topic_of(call), self._context.client(call.request)
        return await self._context.page(
            call.request,
            "topic_figures.html",
            topic=topic,
            stats=await client.get(at_topic(topic, "stats")),
            internal=await client.get(at_topic(topic, "internalStats")),
        )

    async def restart(self, call: AdminCall) -> AdminAnswer:
        """What a restart would do, by what is stored now."""
        topic, client = topic_of(call), self._context.client(call.request)
        stats = await client.get(at_topic(topic, "stats"))
        internal = await client.get(at_topic(topic, "internalStats"))
        found = await self._context.reader.after_restart(topic)
        return await self._context.page(
            call.request, "restart.html", topic=topic, rows=plan_restart(found, stats, internal)
        )

    async def subscription(self, call: AdminCall) -> AdminAnswer:
        """A subscription."""
        topic, name, client = topic_of(call), call.values["subscription"], self._context.client(call.request)
        subject = ChangeSubject(topic.namespace_name, topic, name)
        stored = topic.is_persistent
        return await self._context.page(
            call.request,
            "subscription.html",
            may_peek=stored and await client.may(PlannedRequest("GET", at_subscription(topic, name, "position/1"))),
            changes=await offered(client, SUBSCRIPTION_CHANGES, subject) if stored else [],
            **await self._figures(client, topic, name),
        )

    async def subscription_figures(self, call: AdminCall) -> AdminAnswer:
        """The part of the subscription's page that moves."""
        client = self._context.client(call.request)
        figures = await self._figures(client, topic_of(call), call.values["subscription"])
        return await self._context.page(call.request, "subscription_figures.html", **figures)

    async def messages(self, call: AdminCall) -> AdminAnswer:
        """Entries of a topic, from its beginning or its end."""
        topic, first = topic_of(call), call.request.query.get("from") == "earliest"
        initial = "earliest" if first else "latest"
        return await self._peeked(call, topic, "", initial)

    async def backlog(self, call: AdminCall) -> AdminAnswer:
        """The next entries of a subscription."""
        return await self._peeked(call, topic_of(call), call.values["subscription"], "")

    async def _peeked(self, call: AdminCall, topic: TopicName, subscription: str, initial: str) -> AdminAnswer:
        client = self._context.client(call.request)
        first = whole_number(call, "first", 1, LAST_PLACE)
        count = whole_number(call, "count", 5, MOST_PEEKED)
        entries: list[ShownEntry] = []
        schemas: dict[int | None, Schema | None] = {}
        for place in range(first, first + count):
            if subscription:
                wanted = PlannedRequest("GET", at_subscription(topic, subscription, f"position/{place}"))
            else:
                query = {"initialPosition": initial, "messagePosition": str(place)}
                wanted = PlannedRequest("GET", at_topic(topic, "examinemessage"), query)
            try:
                answer = await client.answer(wanted)
            except AdminRefusal as error:
                if error.status is HTTPStatus.NOT_FOUND and await self._exists(client, topic, subscription):
                    break
                raise
            version = schema_version(answer)
            if version not in schemas:
                schemas[version] = await self._schema(client, topic, version)
            # a hostile payload may take a moment: other connections are served meanwhile
            entries.append(await asyncio.to_thread(plan_entry, answer, schemas[version]))
        return await self._context.page(
            call.request,
            "messages.html",
            topic=topic,
            subscription=subscription,
            initial=initial,
            entries=entries,
            first=first,
            count=count,
            more=len(entries) == count,
        )

    async def _exists(self, client: AdminClient, topic: TopicName, subscription: str) -> bool:
        """Whether a place was not found, not the topic or the subscription. AdminRefusal."""
        stats = await client.get(at_topic(topic, "stats"))
        return not subscription or subscription in stats["subscriptions"]

    async def _figures(self, client: AdminClient, topic: TopicName, name: str) -> Mapping[str, Any]:
        stats = await client.get(at_topic(topic, "stats"))
        if name not in stats["subscriptions"]:
            raise not_found(f"there is no subscription {name} of {topic}")
        internal = await client.get(at_topic(topic, "internalStats"))
        return {
            "topic": topic,
            "name": name,
            "figures": stats["subscriptions"][name],
            "cursor": internal.get("cursors", {}).get(name),
            "last": internal.get("lastConfirmedEntry", ""),
        }

    async def _partitions(self, client: AdminClient, topic: TopicName) -> int:
        if topic.partition_index is not None:
            return 0
        try:
            found = await client.get(at_topic(topic, "partitions"))
        except AdminRefusal as error:
            if error.status is HTTPStatus.NOT_FOUND:
                return 0
            raise
        return int(found["partitions"])

    async def _policies(self, client: AdminClient, topic: TopicName) -> Any:
        """The policies in force; None if the user may not read them, or they cannot be read."""
        if not await client.may(PlannedRequest("GET", f"{ADMIN}/namespaces/{topic.namespace_name}")):
            return None
        try:
            policies = await self._context.reader.policies(topic)
            return plan_policies(policies, await self._context.reader.retention(topic))
        except MledgerError:
            return None

    async def _schema(self, client: AdminClient, topic: TopicName, version: int | None) -> Schema | None:
        """A version of the topic's schema; None if there is none, or the user may not read it."""
        path = f"{ADMIN}/schemas/{topic.namespace_name}/{quote(topic.local_name, safe='')}/schema"
        wanted = PlannedRequest("GET", path if version is None else f"{path}/{version}")
        if not await client.may(wanted):
            return None
        try:
            found: Schema = (await client.answer(wanted)).json()
        except AdminRefusal as error:
            if error.status is HTTPStatus.NOT_FOUND:
                return None
            raise
        return found
