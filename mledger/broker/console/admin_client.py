"""Requests of the admin API in the name of the console's user: the same rights, the same answers."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from mledger.broker.admin_rest.authorization import Authorize
from mledger.broker.admin_rest.fan_out import FanOut
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import ADMIN, AdminAnswer, AdminRequest
from mledger.broker.admin_rest.route_table import RouteTable
from mledger.broker.admin_rest.topics.ownership import topic_path
from mledger.broker.console.console_session import ConsoleSession
from mledger.metastore.records.paths import TopicName

AT_ONCE = 32
_KEPT = ("x-original-principal", "host")


class PlannedRequest(Struct, frozen=True):
    """A request of the admin API that carries a change out."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Any = None


class ConsoleAdmin:
    """The admin API that the console asks: what `routes` have; `allows` decides about rights without logging them."""

    def __init__(self, fan_out: FanOut, routes: RouteTable, allows: Authorize) -> None:
        self.fan_out, self.routes, self.allows = fan_out, routes, allows


class AdminClient:
    """Asks for the user of one request to the console."""

    def __init__(self, admin: ConsoleAdmin, asked: AdminRequest, session: ConsoleSession) -> None:
        self._admin = admin
        self.session = session
        headers = {name: asked.headers[name] for name in _KEPT if name in asked.headers}
        if session.authorization:
            headers["authorization"] = session.authorization
        self._request = replace(asked, method="GET", path="", query={}, headers=headers, body=b"")

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON of an answer, None without a body. AdminRefusal."""
        answer = await self.answer(PlannedRequest("GET", path, query))
        return answer.json() if answer.body else None

    async def answer(self, wanted: PlannedRequest) -> AdminAnswer:
        """The answer of the broker that has it. AdminRefusal, with the reason that it gives."""
        answer = await self._admin.fan_out.ask(self._made(wanted))
        if answer.status is HTTPStatus.UNAUTHORIZED:  # Pulsar's status for a role without the right, too
            await self.check(wanted)
            raise AdminRefusal(HTTPStatus.FORBIDDEN, _reason(answer))
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise AdminRefusal(answer.status, _reason(answer))
        return answer

    async def may(self, wanted: PlannedRequest) -> bool:
        """Whether the user has the right to send the request."""
        try:
            await self.check(wanted)
        except AdminRefusal:
            return False
        return True

    async def check(self, wanted: PlannedRequest) -> None:
        """Raise AdminRefusal unless the user has the right to send the request: 401 if it has to log in, else 403."""
        request = self._made(wanted)
        call, _ = self._admin.routes.call(request)
        await self._admin.allows(request, call.operation)

    async def allowed(self, wanted: Sequence[PlannedRequest]) -> list[bool]:
        """`may` for several requests."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def ask(each: PlannedRequest) -> bool:
            async with limit:
                return await self.may(each)

        return list(await asyncio.gather(*map(ask, wanted)))

    def _made(self, wanted: PlannedRequest) -> AdminRequest:
        body = b"" if wanted.body is None else json.dumps(wanted.body).encode()
        return replace(self._request, method=wanted.method, path=wanted.path, query=wanted.query or {}, body=body)


def at_topic(topic: TopicName, what: str = "") -> str:
    """The admin API's path of a topic, or of something of it."""
    return topic_path(topic, what)


def at_subscription(topic: TopicName, subscription: str, what: str = "") -> str:
    """The admin API's path of a subscription, or of something of it."""
    end = f"/{what}" if what else ""
    return topic_path(topic, f"subscription/{quote(subscription, safe='')}{end}")


def at_namespace(namespace: str, domain: str = "persistent") -> str:
    """The admin API's path of the topics of a namespace."""
    return f"{ADMIN}/{domain}/{quote(namespace)}"


def _reason(answer: AdminAnswer) -> str:
    try:
        found = json.loads(answer.body)
        return str(found["reason"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return f"the broker answers {answer.status.value} {answer.status.phrase}"
