"""What pages show of who asks for them."""

from http import HTTPStatus
from types import SimpleNamespace

import pytest

from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.console.console_context import ConsoleContext
from mledger.broker.console.page_templates import PageTemplates
from mledger.broker.security.errors import AuthenticationBusy, AuthenticationFailed, NotAuthorized
from tests.support.aio import run


@pytest.mark.parametrize("refusal", [AuthenticationBusy, AuthenticationFailed, NotAuthorized])
def test_the_page_of_a_refusal_is_shown_to_whom_is_refused(refusal):
    async def of_http(headers, certificate):
        raise refusal("why")

    broker = SimpleNamespace(settings=SimpleNamespace(cluster_name="here"), security=SimpleNamespace(of_http=of_http))
    context = ConsoleContext(broker, None, None, PageTemplates())
    status, request = HTTPStatus.SERVICE_UNAVAILABLE, AdminRequest("GET", "/console")
    page = run(context.page(request, "error.html", status, code=status.value, why="try again later"))
    assert (page.status, b"try again later" in page.body) == (status, True)
