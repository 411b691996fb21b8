"""The console of a broker: `/console` and everything below it, from a request to its page, without sockets."""

from http import HTTPStatus

from mledger.broker.admin_rest.admin_api import AdminApi
from mledger.broker.admin_rest.authorization import Authorize, allow_all
from mledger.broker.admin_rest.fan_out import FanOut
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.refusals import not_found, plan_status
from mledger.broker.admin_rest.request_origin import check_origin
from mledger.broker.admin_rest.requests import Access, AdminAnswer, AdminCall, AdminRequest
from mledger.broker.admin_rest.route_table import AdminRoute, RouteTable
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.console.admin_client import ConsoleAdmin
from mledger.broker.console.changes.topic_changes import TopicChanges
from mledger.broker.console.console_context import ConsoleContext
from mledger.broker.console.console_session import PATH, plan_session
from mledger.broker.console.page_templates import PageTemplates, static_file
from mledger.broker.console.pages.change_pages import ChangePages
from mledger.broker.console.pages.login_pages import LoginPages
from mledger.broker.console.pages.overview_pages import OverviewPages
from mledger.broker.console.pages.topic_pages import TopicPages
from mledger.broker.console.plan_seal import PlanSeal
from mledger.broker.console.stored_topic import StoredTopicReader
from mledger.cluster import Cluster
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)


class ConsoleSite:
    """Answers requests for pages; `api` does what they ask for, `allows` says beforehand who may do what."""

    def __init__(self, broker: ServedBroker, cluster: Cluster, api: AdminApi, allows: Authorize = allow_all) -> None:
        reader, settings = StoredTopicReader(cluster), broker.settings
        admin = ConsoleAdmin(FanOut(api.answer, broker.security), RouteTable(api.routes), allows)
        self._context = ConsoleContext(broker, admin, reader, PageTemplates())
        changes = TopicChanges(reader)
        self._login = LoginPages(self._context)
        pages = (
            self._login,
            OverviewPages(self._context, PoliciesNodes(cluster.store, settings.cluster_name, settings.default_bundles)),
            TopicPages(self._context, changes),
            ChangePages(self._context, changes, PlanSeal()),
        )
        routes = [route for each in pages for route in each.routes]
        self._table = RouteTable([*routes, AdminRoute("GET", f"{PATH}/static/{{file}}", Access.ANYONE, self.static)])

    async def answer(self, request: AdminRequest) -> AdminAnswer:
        """The page; an error is one, too."""
        try:
            check_origin(request, self._context.broker)
            call, action = self._table.call(request)
            return await action(call)
        except MledgerError as error:
            return await self._refused(request, error)

    async def static(self, call: AdminCall) -> AdminAnswer:
        """A file that pages use."""
        found = static_file(call.values["file"])
        if found is None:
            raise not_found(f"there is no {call.request.path}")
        return found

    async def _refused(self, request: AdminRequest, error: MledgerError) -> AdminAnswer:
        status = plan_status(error)
        if status is HTTPStatus.UNAUTHORIZED:
            after = request.path if request.method == "GET" else ""
            shown = plan_session(request.headers).authorization  # without any, the form itself says what is needed
            return await self._login.form(request, status, after, str(error) if shown else "")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("console_request_failed", method=request.method, path=request.path, error=error)
        return await self._context.page(request, "error.html", status, code=status.value, why=str(error))
