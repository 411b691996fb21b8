"""What all pages of the console share: the broker, the admin API in the user's name, templates."""

from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct

from mledger.broker.admin_rest.refusals import bad_request
from mledger.broker.admin_rest.requests import AdminAnswer, AdminCall, AdminRequest
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.console.admin_client import AdminClient, ConsoleAdmin
from mledger.broker.console.console_session import plan_session
from mledger.broker.console.page_templates import PageTemplates
from mledger.broker.console.stored_topic import StoredTopicReader
from mledger.broker.security.errors import AuthenticationBusy, AuthenticationFailed, NotAuthorized
from mledger.metastore.records.paths import TopicName

MOST_FIELDS = 64


class ConsoleContext(Struct, frozen=True):
    """The broker that serves the console, and what pages are made of."""

    broker: ServedBroker
    admin: ConsoleAdmin
    reader: StoredTopicReader
    templates: PageTemplates

    def client(self, request: AdminRequest) -> AdminClient:
        """The admin API for whoever sent the request."""
        return AdminClient(self.admin, request, plan_session(request.headers, request.certificate))

    async def page(
        self, request: AdminRequest, template: str, status: HTTPStatus = HTTPStatus.OK, **values: Any
    ) -> AdminAnswer:
        """The answer that shows a template to whoever sent the request."""
        session = plan_session(request.headers)
        return self.templates.page(
            template,
            status,
            cluster=self.broker.settings.cluster_name,
            role=await self._role(request),
            can_log_out=session.by_cookie,
            here=request.path,
            **values,
        )

    async def _role(self, request: AdminRequest) -> str:
        headers, session = dict(request.headers), plan_session(request.headers)
        if session.authorization:
            headers["authorization"] = session.authorization
        try:
            return (await self.broker.security.of_http(headers, request.certificate)).role
        except (AuthenticationBusy, AuthenticationFailed, NotAuthorized):  # the page of such an error shows no role
            return ""


def topic_of(call: AdminCall) -> TopicName:
    """The topic that the path of a page names. InvalidName."""
    values = call.values
    return TopicName(values["tenant"], values["namespace"], values["topic"], domain=values["domain"])


def whole_number(call: AdminCall, name: str, default: int, most: int) -> int:
    """A parameter that counts from 1 on; what is wrong is taken for the nearest that is right."""
    text = call.request.query.get(name, "")
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
    return min(max(found, 1), most)


def form_of(request: AdminRequest) -> dict[str, str]:
    """The fields of a form. AdminRefusal (400)."""
    try:
        return dict(parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise bad_request("the form cannot be read") from None
