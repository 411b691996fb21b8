"""Credentials in the headers of HTTP requests, and settings that let a client in or not."""

import asyncio
import base64

import jwt
import pytest

from mledger.broker.security.authentication import Authenticator, plan_credentials
from mledger.broker.security.credentials import Credentials
from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.security_settings import BASIC, TLS, TOKEN, SecuritySettings

CERTIFICATE = {"subject": ((("commonName", "app"),),)}
SECRET = base64.b64encode(b"s" * 32).decode()
TOKENS = SecuritySettings(authentication=True, methods=(TOKEN,), token_secret_key=SECRET)


def authenticated(authenticator, shown):
    return asyncio.run(authenticator.authenticate(shown))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer abc", Credentials(TOKEN, b"abc")),
        ("bearer   abc ", Credentials(TOKEN, b"abc")),
        ("Bearer", Credentials(TOKEN)),
        ("Bearer \udcff", Credentials(TOKEN, b"\xff")),
        ("Basic YTpi", Credentials(BASIC, b"a:b")),
        ("", Credentials("")),
        ("Negotiate abc", Credentials("")),
    ],
)
def test_the_header_names_the_credentials(header, expected):
    assert plan_credentials({"authorization": header}, None, (TOKEN, BASIC)) == expected


@pytest.mark.parametrize("header", ["Basic ***", "Basic \udcff", "Basic a"])
def test_a_header_that_is_no_base64_is_refused(header):
    with pytest.raises(AuthenticationFailed):
        plan_credentials({"authorization": header}, None, (BASIC,))


def test_a_certificate_counts_where_there_is_no_header_and_a_provider():
    assert plan_credentials({}, CERTIFICATE, (TLS,)) == Credentials(TLS, certificate=CERTIFICATE)
    assert plan_credentials({}, CERTIFICATE, (TOKEN,)) == Credentials("")
    assert plan_credentials({"authorization": "Bearer a"}, CERTIFICATE, (TLS, TOKEN)) == Credentials(TOKEN, b"a")


@pytest.mark.parametrize("shown", [Credentials(""), Credentials("basic", b"a:b"), Credentials("tls", b"", CERTIFICATE)])
def test_a_method_without_provider_is_refused(shown):
    with pytest.raises(AuthenticationFailed, match="token is needed"):
        authenticated(Authenticator(TOKENS), shown)


def test_the_name_of_a_method_is_cut_short():
    with pytest.raises(AuthenticationFailed) as raised:
        authenticated(Authenticator(TOKENS), Credentials("x" * 50_000))
    assert len(str(raised.value)) < 200


def test_wrong_credentials_never_become_anonymous():
    settings = SecuritySettings(authentication=True, methods=(TOKEN,), token_secret_key=SECRET, anonymous_role="guest")
    authenticator = Authenticator(settings)
    assert authenticated(authenticator, Credentials("")).role == "guest"
    for data in (b"", b"\xff", jwt.encode({"sub": "app"}, b"f" * 32, "HS256").encode()):
        with pytest.raises(AuthenticationFailed):
            authenticated(authenticator, Credentials(TOKEN, data))


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ()}, {"subject": ((("commonName", ""),),)}])
def test_a_certificate_without_a_name_is_refused(certificate):
    authenticator = Authenticator(SecuritySettings(authentication=True, methods=(TLS,)))
    with pytest.raises(AuthenticationFailed, match="common name"):
        authenticated(authenticator, Credentials(TLS, certificate=certificate))


def test_credentials_do_not_show_their_data():
    assert "abc" not in repr(Credentials(TOKEN, b"abc", CERTIFICATE))
    assert SECRET not in repr(TOKENS)
