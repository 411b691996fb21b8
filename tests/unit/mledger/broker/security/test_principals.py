"""Who a client is behind a proxy, and after it renewed its credentials."""

import pytest

from mledger.broker.security.errors import AuthenticationFailed, NotAuthorized
from mledger.broker.security.principals import Principal, plan_principal, plan_renewal

PROXIES = frozenset({"proxy", "other-proxy"})


def planned(role, original, *, over_http=False):
    return plan_principal(Principal(role, expires_s=5.0), original, PROXIES, over_http=over_http)


@pytest.mark.parametrize("over_http", [False, True])
def test_a_proxy_speaks_for_its_client(over_http):
    found = planned("proxy", "app", over_http=over_http)
    assert found == Principal("proxy", "app", 5.0)
    assert found.roles == ("proxy", "app")


@pytest.mark.parametrize("over_http", [False, True])
def test_a_client_of_its_own_speaks_for_itself(over_http):
    assert planned("app", "", over_http=over_http).roles == ("app",)


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize(
    ("role", "original"),
    [("proxy", ""), ("proxy", "proxy"), ("proxy", "other-proxy"), ("app", "admin"), ("app", "proxy")],
)
def test_nobody_else_speaks_for_others(role, original, over_http):
    with pytest.raises(NotAuthorized):
        planned(role, original, over_http=over_http)


def test_a_client_may_name_itself_over_http_only():
    assert planned("app", "app", over_http=True).role == "app"
    with pytest.raises(NotAuthorized):
        planned("app", "app")


def test_renewed_credentials_are_of_the_same_role_and_client():
    before = Principal("proxy", "app", 5.0)
    assert plan_renewal(before, Principal("proxy", expires_s=9.0)) == Principal("proxy", "app", 9.0)
    with pytest.raises(AuthenticationFailed, match="another role"):
        plan_renewal(before, Principal("app", expires_s=9.0))


def test_of_a_client_whose_own_credentials_were_shown_those_are_renewed():
    before = Principal("proxy", "app", 5.0, original_verified=True)
    assert plan_renewal(before, Principal("app", expires_s=9.0)) == before._replace(expires_s=9.0)
    with pytest.raises(AuthenticationFailed, match="another role"):
        plan_renewal(before, Principal("proxy", expires_s=9.0))
