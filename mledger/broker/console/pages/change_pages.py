"""Pages of changes: the plan of what will change, and its confirmation."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from msgspec import Struct
from msgspec.structs import replace

from mledger.broker.admin_rest.refusals import not_found
from mledger.broker.admin_rest.requests import Access, AdminAnswer, AdminCall
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.console.admin_client import AdminClient
from mledger.broker.console.changes.change_plan import (
    ChangeAsked,
    ChangePlan,
    ChangeSubject,
    OfferedChange,
    plan_holds,
)
from mledger.broker.console.changes.namespace_changes import NAMESPACE_CHANGES
from mledger.broker.console.changes.subscription_changes import SUBSCRIPTION_CHANGES
from mledger.broker.console.changes.topic_changes import WHOLE_TOPIC_CHANGES, TopicChanges
from mledger.broker.console.console_context import ConsoleContext, form_of, topic_of
from mledger.broker.console.console_session import PATH
from mledger.broker.console.page_templates import namespace_url, topic_url
from mledger.broker.console.plan_seal import PlanSeal
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms

log = get_logger(__name__)

_TOPIC = f"{PATH}/topics/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}"
_WHOLE = f"{_TOPIC}/whole"
CHANGED = (
    "something has changed since the plan was made, or the plan is older than 10 minutes or used: look at it again"
)


async def offered(client: AdminClient, kinds: Sequence[OfferedChange], subject: ChangeSubject) -> list[OfferedChange]:
    """The changes that the user has the right to."""
    allowed = await client.allowed([each.right(subject) for each in kinds])
    return [kind for kind, may in zip(kinds, allowed, strict=True) if may]


class _Wanted(Struct, frozen=True):
    """A change that a page is about, and where its subject's page is."""

    kind: OfferedChange
    subject: ChangeSubject
    back: str


class ChangePages:
    """Plans changes, and carries confirmed ones out."""

    def __init__(self, context: ConsoleContext, changes: TopicChanges, seal: PlanSeal) -> None:
        self._context, self._seal = context, seal
        self._topic_changes = {each.name: each for each in changes.kinds}
        self._whole_changes = {each.name: each for each in WHOLE_TOPIC_CHANGES}
        self._subscription_changes = {each.name: each for each in SUBSCRIPTION_CHANGES}
        self._namespace_changes = {each.name: each for each in NAMESPACE_CHANGES}

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        paths = (
            f"{PATH}/namespaces/{{tenant}}/{{namespace}}/changes/{{change}}",
            f"{_TOPIC}/changes/{{change}}",
            f"{_WHOLE}/changes/{{change}}",
            f"{_TOPIC}/subscriptions/{{subscription}}/changes/{{change}}",
        )
        return [
            route
            for path in paths
            for route in (
                AdminRoute("GET", path, Access.ANYONE, self.plan),
                AdminRoute("POST", path, Access.ANYONE, self.confirm),
            )
        ]

    async def plan(self, call: AdminCall) -> AdminAnswer:
        """What the change would do; nothing is done."""
        wanted, client = self._wanted(call), self._context.client(call.request)
        await client.check(wanted.kind.right(wanted.subject))
        asked = ChangeAsked(client, wanted.subject, call.request.query, "", wall_clock_ms())
        return await self._shown(call, wanted, asked, await wanted.kind.plan(asked))

    async def confirm(self, call: AdminCall) -> AdminAnswer:
        """Carry the change out if its plan still holds, else plan it again."""
        wanted, form, client = self._wanted(call), form_of(call.request), self._context.client(call.request)
        await client.check(wanted.kind.right(wanted.subject))
        values = {name: value for name, value in form.items() if name != "plan"}
        sealed = self._seal.unseal(form.get("plan", ""), client.session.identity, wall_clock_ms())
        told = sealed is not None and (sealed["path"], sealed["values"]) == (call.request.path, values)
        bond: Mapping[str, object] = sealed["bond"] if sealed is not None and told else {}
        asked = ChangeAsked(client, wanted.subject, values, str(bond.get("target", "")), wall_clock_ms())
        now = await wanted.kind.plan(asked)
        if not bond or not plan_holds(bond, now) or now.request is None:
            afresh = replace(asked, target="")
            again = await wanted.kind.plan(afresh)
            return await self._shown(call, wanted, afresh, again, HTTPStatus.CONFLICT, CHANGED)
        answer = await client.answer(now.request)
        log.info("console_change", change=wanted.kind.name, method=now.request.method, path=now.request.path)
        return await self._context.page(
            call.request, "done.html", plan=now, wanted=wanted, answer=answer.body.decode(errors="replace")
        )

    async def _shown(
        self,
        call: AdminCall,
        wanted: _Wanted,
        asked: ChangeAsked,
        plan: ChangePlan,
        status: HTTPStatus = HTTPStatus.OK,
        notice: str = "",
    ) -> AdminAnswer:
        values = {each.name: asked.values[each.name] for each in wanted.kind.fields if each.name in asked.values}
        content = {"path": call.request.path, "values": values, "bond": plan.bond}
        seal = self._seal.seal(content, asked.client.session.identity, asked.now_ms) if plan.request else ""
        return await self._context.page(
            call.request, "plan.html", status, plan=plan, wanted=wanted, values=values, seal=seal, notice=notice
        )

    def _wanted(self, call: AdminCall) -> _Wanted:
        values = call.values
        if "topic" not in values:
            found, subject = self._namespace_changes, ChangeSubject(call.namespace)
            back = namespace_url(call.namespace)
        else:
            topic, name = topic_of(call), values.get("subscription", "")
            subject = ChangeSubject(topic.namespace_name, topic, name)
            whole = call.request.path.split("/")[_WHOLE.count("/")] == "whole"  # the topic may have this name, too
            found = self._subscription_changes if name else self._whole_changes if whole else self._topic_changes
            back = topic_url(topic, "subscriptions", name) if name else topic_url(topic)
        kind = found.get(values["change"])
        if kind is None or (subject.topic is not None and not subject.topic.is_persistent):
            raise not_found(f"there is no change {values['change']!r}")
        return _Wanted(kind, subject, back)
