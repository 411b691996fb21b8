"""Who may do what over HTTP: the admin API by the access that its routes name, and the metrics."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import Access, AdminOperation, AdminRequest
from mledger.broker.process.http_lookup import refused
from mledger.broker.security.broker_security import BrokerSecurity
from mledger.broker.security.errors import AuthenticationFailed, NotAuthorized
from mledger.broker.security.permissions import TopicOperation
from mledger.broker.security.principals import Principal
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, Route

log = get_logger(__name__)

METRICS = "/metrics"
_OPERATIONS = {
    Access.LOOKUP: TopicOperation.LOOKUP,
    Access.PRODUCE: TopicOperation.PRODUCE,
    Access.CONSUME: TopicOperation.CONSUME,
}
_OF_TENANTS = (Access.TENANT_ADMIN, Access.NAMESPACE_ADMIN)


def plan_refusal_status(asked: AdminOperation) -> HTTPStatus:
    """What Pulsar answers to a known role that may not do this.

    403 where it asks for a policy, or for an operation of the namespace; 401 where it asks for a super user, for the
    tenant's administrator, or for an operation of a topic.
    """
    of_namespace = asked.access is Access.LOOKUP and not asked.topic
    forbidden = of_namespace or asked.access is Access.NAMESPACE_ADMIN
    return HTTPStatus.FORBIDDEN if forbidden else HTTPStatus.UNAUTHORIZED


class AdminGuard:
    """Authenticates and authorizes requests of the admin API."""

    def __init__(self, security: BrokerSecurity) -> None:
        self._security = security

    async def authorize(self, request: AdminRequest, operation: AdminOperation) -> None:
        """Raise AdminRefusal with Pulsar's status, and log it, unless whoever sent the request may do this."""
        try:
            await self.check(request, operation)
        except AdminRefusal as error:
            if error.status is HTTPStatus.UNAUTHORIZED:
                log.warning("authentication_failed", path=request.path, reason=error)
                raise
            log.warning("not_authorized", path=request.path, reason=error)
            raise AdminRefusal(plan_refusal_status(operation), str(error)) from None

    async def check(self, request: AdminRequest, operation: AdminOperation) -> None:
        """Raise AdminRefusal unless whoever sent the request may do this: 401 if it is not known who that is, else 403.

        So the console knows who has to log in.
        """
        try:
            principal = await self._security.of_http(request.headers, request.certificate)
            await self._allow(principal, operation)
        except AuthenticationFailed as error:
            raise AdminRefusal(HTTPStatus.UNAUTHORIZED, str(error)) from None
        except NotAuthorized as error:
            raise AdminRefusal(HTTPStatus.FORBIDDEN, str(error)) from None

    async def _allow(self, principal: Principal, asked: AdminOperation) -> None:
        if asked.access is Access.ANYONE:
            return
        wanted = _OPERATIONS.get(asked.access)
        if wanted is None or not asked.namespace:
            await self._security.allow_admin(principal, asked.tenant if asked.access in _OF_TENANTS else None)
        elif not asked.topic:
            await self._security.allow_namespace(principal, f"{asked.tenant}/{asked.namespace}")
        else:
            await self._security.allow(principal, wanted, asked.topic_name, asked.subscription)


def guarded(security: BrokerSecurity, routes: Mapping[str, Route]) -> dict[str, Route]:
    """The routes, where those of metrics need credentials if the settings say so; health never does."""
    return {
        path: _guard(security, route) if path == METRICS and security.settings.metrics_authenticated else route
        for path, route in routes.items()
    }


def _guard(security: BrokerSecurity, route: Route) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    async def answer(asked: HttpRequest) -> HttpResponse:
        try:
            await security.of_http(asked.headers, asked.certificate)
        except MledgerError as error:
            return refused(error)
        return await route(asked)

    return answer
