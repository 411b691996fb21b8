"""`/console/login` and `/console/logout`: credentials are checked and kept in a cookie."""

from http import HTTPStatus

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import Access, AdminAnswer, AdminCall, AdminRequest
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.console.console_context import ConsoleContext, form_of
from mledger.broker.console.console_session import PATH, login_cookie, logout_cookie, plan_login
from mledger.broker.console.page_templates import redirect
from mledger.broker.security.errors import AuthenticationFailed, NotAuthorized
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)


def plan_next(wanted: str) -> str:
    """Where a login leads: a page of the console."""
    inside = wanted == PATH or wanted.startswith((f"{PATH}/", f"{PATH}?"))
    return wanted if inside and wanted.isprintable() and not wanted.startswith(f"{PATH}/log") else PATH


class LoginPages:
    """Logs users in and out."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        return [
            AdminRoute("GET", f"{PATH}/login", Access.ANYONE, self.show),
            AdminRoute("POST", f"{PATH}/login", Access.ANYONE, self.log_in),
            AdminRoute("POST", f"{PATH}/logout", Access.ANYONE, self.log_out),
        ]

    async def show(self, call: AdminCall) -> AdminAnswer:
        """The form."""
        return await self.form(call.request, HTTPStatus.OK, call.request.query.get("next", ""), "")

    async def form(self, request: AdminRequest, status: HTTPStatus, after: str, why: str) -> AdminAnswer:
        """The form, and why it is shown."""
        methods = self._context.broker.security.settings.methods
        return await self._context.page(request, "login.html", status, after=plan_next(after), why=why, methods=methods)

    async def log_in(self, call: AdminCall) -> AdminAnswer:
        """Check credentials, and keep them in a cookie."""
        request, form = call.request, form_of(call.request)
        after = form.get("next", "")
        try:
            session = plan_login(form)
            headers = {**request.headers, "authorization": session.authorization}
            await self._context.broker.security.of_http(headers, None)
        except AdminRefusal as error:
            return await self.form(request, error.status, after, str(error))
        except (AuthenticationFailed, NotAuthorized) as error:
            log.warning("authentication_failed", path=request.path, reason=error)
            return await self.form(request, HTTPStatus.UNAUTHORIZED, after, str(error))
        return redirect(plan_next(after), **{"Set-Cookie": login_cookie(session, encrypted=request.encrypted)})

    async def log_out(self, call: AdminCall) -> AdminAnswer:
        """Forget the credentials."""
        return redirect(f"{PATH}/login", **{"Set-Cookie": logout_cookie(encrypted=call.request.encrypted)})
