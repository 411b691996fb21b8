"""Credentials come from a header or the cookie, and a login makes the cookie."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.console.console_session import ConsoleSession, login_cookie, logout_cookie, plan_login, plan_session


def test_a_login_is_found_again_in_its_cookie():
    for form, expected in (
        ({"token": " a.b\n.c "}, "Bearer a.b.c"),
        ({"user": "ann", "password": "p:w"}, "Basic YW5uOnA6dw=="),
    ):
        cookie = login_cookie(plan_login(form), encrypted=False)
        assert cookie.endswith("; Path=/console; HttpOnly; SameSite=Strict")
        found = plan_session({"cookie": f"other=1; {cookie.partition(';')[0]}"})
        assert (found.authorization, found.by_cookie) == (expected, True)
    assert login_cookie(plan_login({"token": "t"}), encrypted=True).endswith("; Secure")
    assert plan_session({"cookie": logout_cookie(encrypted=True).partition(";")[0]}) == ConsoleSession()


def test_a_header_counts_before_the_cookie():
    cookie = login_cookie(plan_login({"token": "t"}), encrypted=False).partition(";")[0]
    assert plan_session({"authorization": "Bearer h", "cookie": cookie}) == ConsoleSession("Bearer h")


@pytest.mark.parametrize("cookie", ["", "mledger-console=%%", "mledger-console=/w==", "\x00;;=", "mledger-console"])
def test_a_cookie_that_cannot_be_read_is_none(cookie):
    assert plan_session({"cookie": cookie}) == ConsoleSession()


def test_no_credentials_are_shown():
    session = plan_login({"token": "secret"})
    assert "secret" not in repr(session)
    assert "secret" not in session.identity


@pytest.mark.parametrize("form", [{}, {"token": ""}, {"token": "t" * 5000}, {"token": "a\x01b"}])
def test_a_form_without_usable_credentials_is_refused(form):
    with pytest.raises(AdminRefusal):
        plan_login(form)


def test_users_differ_by_their_certificate_and_by_whom_a_proxy_speaks_for():
    ann, ben = ({"subject": ((("commonName", name),),)} for name in ("ann", "ben"))
    proxied = [{"x-original-principal": name} for name in ("ann", "ben")]
    users = [plan_session({}, ann), plan_session({}, ben), *(plan_session(each) for each in proxied), plan_session({})]
    assert len({each.identity for each in users}) == len(users)
    assert plan_session({}, ann).identity == plan_session({}, ann).identity
