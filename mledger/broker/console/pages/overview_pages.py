"""`/console`, `/console/namespaces`: the cluster, its namespaces, and the topics of one."""

from collections.abc import Sequence
from typing import Any

from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import ADMIN, Access, AdminAnswer, AdminCall
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.console.admin_client import AdminClient, PlannedRequest, at_namespace, at_topic
from mledger.broker.console.changes.change_plan import ChangeSubject
from mledger.broker.console.changes.namespace_changes import NAMESPACE_CHANGES
from mledger.broker.console.console_context import ConsoleContext, whole_number
from mledger.broker.console.console_session import PATH
from mledger.broker.console.page_templates import namespace_url, redirect, topic_url
from mledger.broker.console.pages.change_pages import offered
from mledger.broker.console.topic_table import BACKLOG, TopicRow, plan_topic_table
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import NON_PERSISTENT, PERSISTENT, TopicName

WORST = 10
MOST_LOOKED_AT = 100
MOST_NAMESPACES = 500
MOST_PAGES = 100_000


def topic_row(topic: BrokerTopic) -> TopicRow:
    """The figures of a topic that is open at this broker."""
    cursors = [each for name, each in topic.managed_ledger.open_cursors.items() if name != DEDUPLICATION]
    return TopicRow(
        topic.name,
        backlog=max((each.backlog for each in cursors), default=0),
        subscriptions=len(cursors),
        producers=sum(1 for _ in topic.producers),
        consumers=sum(len(each.consumers) for each in topic.subscriptions),
        size=topic.managed_ledger.total_size,
    )


def topic_in(namespace: str, name: str, domain: str = PERSISTENT) -> TopicName:
    """The topic of a list of the namespace's; its own name may have slashes."""
    tenant, _, local = namespace.partition("/")
    return TopicName(tenant, local, name.removeprefix(f"{domain}://{namespace}/"), domain=domain)


class OverviewPages:
    """Pages about more than one topic."""

    def __init__(self, context: ConsoleContext, nodes: PoliciesNodes) -> None:
        self._context, self._nodes = context, nodes

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        return [
            AdminRoute("GET", PATH, Access.ANYONE, self.overview),
            AdminRoute("GET", f"{PATH}/find", Access.ANYONE, self.find),
            AdminRoute("GET", f"{PATH}/namespaces", Access.ANYONE, self.namespaces),
            AdminRoute("GET", f"{PATH}/namespaces/{{tenant}}/{{namespace}}", Access.ANYONE, self.topics),
        ]

    async def overview(self, call: AdminCall) -> AdminAnswer:
        """The cluster: brokers, bookies, and the subscriptions here that are furthest behind."""
        client, broker = self._context.client(call.request), self._context.broker
        await client.check(PlannedRequest("GET", f"{ADMIN}/clusters"))
        whole = await client.may(PlannedRequest("GET", f"{ADMIN}/brokers"))
        return await self._context.page(
            call.request,
            "overview.html",
            whole=whole,
            this=broker.owners.roster.address,
            version=(await client.answer(PlannedRequest("GET", f"{ADMIN}/brokers/version"))).body.decode(),
            reports=list(await broker.owners.roster.reports()) if whole else [],
            bookies=await self._bookies(client) if whole else {},
            connections=len(broker.connections),
            open_topics=len(broker.topics.open),
            worst=await self._worst(client),
        )

    async def find(self, call: AdminCall) -> AdminAnswer:
        """The page of the topic or namespace of a name. InvalidName."""
        name = call.request.query.get("name", "").strip()
        if not name:
            return redirect(f"{PATH}/namespaces")
        if "://" not in name and name.count("/") == 1:
            tenant, _, namespace = name.partition("/")
            TopicName(tenant, namespace, "any")
            return redirect(namespace_url(name))
        return redirect(topic_url(TopicName.parse_served(name)))

    async def namespaces(self, call: AdminCall) -> AdminAnswer:
        """The namespaces whose topics the user may list."""
        client, search = self._context.client(call.request), call.request.query.get("q", "")
        await client.check(PlannedRequest("GET", f"{ADMIN}/clusters"))
        found = [each for tenant in await self._nodes.tenants() for each in await self._nodes.namespaces(tenant)]
        found = [each for each in found if search.strip().casefold() in each.casefold() and _is_name(each)]
        if not await client.may(PlannedRequest("GET", f"{ADMIN}/tenants")):
            allowed = await client.allowed([PlannedRequest("GET", at_namespace(each)) for each in found])
            found = [each for each, may in zip(found, allowed, strict=True) if may]
        return await self._context.page(
            call.request, "namespaces.html", found=found[:MOST_NAMESPACES], total=len(found), search=search
        )

    async def topics(self, call: AdminCall) -> AdminAnswer:
        """The topics of a namespace."""
        client, query, namespace = self._context.client(call.request), call.request.query, call.namespace
        topics = [topic_in(namespace, each) for each in await client.get(at_namespace(namespace))]
        whole = [topic_in(namespace, each) for each in await client.get(f"{at_namespace(namespace)}/partitioned")]
        here = {each.name: each for each in self._context.broker.topics.stored}
        rows = [topic_row(here[each]) if each in here else TopicRow(each) for each in topics]
        rows += await self._nonpersistent(client, namespace)
        table = plan_topic_table(
            rows, query.get("q", ""), query.get("sort", BACKLOG), whole_number(call, "page", 1, MOST_PAGES)
        )
        return await self._context.page(
            call.request,
            "topics.html",
            namespace=namespace,
            table=table,
            partitioned=[each for each in whole if query.get("q", "").strip().casefold() in str(each).casefold()],
            known=sum(1 for row in rows if row.backlog is not None),
            changes=await offered(client, NAMESPACE_CHANGES, ChangeSubject(namespace)),
        )

    async def _nonpersistent(self, client: AdminClient, namespace: str) -> list[TopicRow]:
        found = await client.get(at_namespace(namespace, "non-persistent"))
        return [TopicRow(topic_in(namespace, each, NON_PERSISTENT)) for each in found]

    async def _worst(self, client: AdminClient) -> Sequence[TopicRow]:
        """The topics here with the largest backlogs, of those that the user may look up."""
        rows = [topic_row(each) for each in self._context.broker.topics.stored]
        rows = sorted((each for each in rows if each.backlog), key=lambda row: row.backlog or 0, reverse=True)
        rows = rows[:MOST_LOOKED_AT]
        allowed = await client.allowed([PlannedRequest("GET", at_topic(each.topic, "stats")) for each in rows])
        return [row for row, may in zip(rows, allowed, strict=True) if may][:WORST]

    async def _bookies(self, client: AdminClient) -> Any:
        try:
            return await client.get(f"{ADMIN}/bookies/all")
        except AdminRefusal:
            return {}


def _is_name(namespace: str) -> bool:
    """Whether it can have topics: other software may leave nodes of any name."""
    tenant, _, local = namespace.partition("/")
    try:
        TopicName(tenant, local, "any")
    except InvalidName:
        return False
    return True
