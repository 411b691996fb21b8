"""Requests find their routes; what is not there says how."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import DONE, Access, AdminRequest
from mledger.broker.admin_rest.route_table import EVERYTHING, AdminRoute, RouteTable


async def act(_):
    return DONE


async def other(_):
    return DONE


TABLE = RouteTable(
    [
        AdminRoute("GET", "/a/{tenant}", Access.LOOKUP, act),
        AdminRoute("PUT", "/a/{tenant}", Access.TENANT_ADMIN, act),
        AdminRoute("GET", "/a/word", Access.ANYONE, other),
        AdminRoute("GET", "/a/{tenant}/{namespace}/x", Access.LOOKUP, act),
        AdminRoute("*", "/a/{tenant}/offload", Access.LOOKUP),
        AdminRoute("*", f"/b/{EVERYTHING}", Access.SUPER_USER),
    ]
)


def refused(method, path):
    with pytest.raises(AdminRefusal) as caught:
        TABLE.call(AdminRequest(method, path))
    return caught.value.status, str(caught.value)


def test_a_path_with_nul_is_refused():
    assert refused("GET", "/a/t%00")[0] == 400


def test_names_of_the_pattern_have_the_decoded_elements():
    call, action = TABLE.call(AdminRequest("GET", "/a/t%20t/n%2Fn/x"))
    assert action is act
    assert call.values == {"tenant": "t t", "namespace": "n/n"}
    assert call.operation.name == "GET /a/{tenant}/{namespace}/x"
    assert (call.operation.tenant, call.operation.namespace, call.operation.access) == ("t t", "n/n", Access.LOOKUP)


def test_words_win_over_names_for_the_methods_that_they_have():
    assert TABLE.call(AdminRequest("GET", "/a/word"))[1] is other
    assert TABLE.call(AdminRequest("PUT", "/a/word"))[1] is act


def test_head_is_answered_like_get():
    assert TABLE.call(AdminRequest("HEAD", "/a/word"))[1] is other


def test_another_method_is_not_allowed_and_another_path_not_found():
    assert refused("DELETE", "/a/t") == (405, "/a/t takes GET PUT, not DELETE")
    assert refused("GET", "/c")[0] == 404
    assert refused("GET", "/a//n/x")[0] == 404


def test_what_is_not_built_says_so_by_name():
    assert refused("POST", "/a/t/offload") == (501, "this broker does not serve POST /a/t/offload")
    assert refused("GET", "/b/c/d") == (501, "this broker does not serve GET /b/c/d")


def test_an_element_that_is_not_utf8_is_a_bad_request():
    assert refused("GET", "/a/%ff")[0] == 400


def test_a_route_is_given_once():
    with pytest.raises(ValueError, match="two routes"):
        RouteTable([AdminRoute("GET", "/a/{x}", Access.LOOKUP, act), AdminRoute("GET", "/a/{y}", Access.LOOKUP, act)])


def test_the_domain_of_a_topic_is_that_of_its_route_however_the_path_is_spelled():
    pattern = "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}"
    table = RouteTable([AdminRoute("DELETE", pattern, Access.TENANT_ADMIN, act)])
    for spelled in ("non-persistent", "non%2Dpersistent", "%6eon-persistent"):
        call, _ = table.call(AdminRequest("DELETE", f"/admin/v2/{spelled}/shop/eu/orders"))
        assert str(call.topic) == "non-persistent://shop/eu/orders"
