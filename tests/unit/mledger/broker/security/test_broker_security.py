"""Whom a broker takes the client of a proxy for."""

import asyncio
import base64
from typing import Any

import jwt
import pytest

from mledger.broker.security.broker_security import BrokerSecurity
from mledger.broker.security.credentials import Credentials
from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.principals import Principal
from mledger.broker.security.security_settings import TOKEN, SecuritySettings

SECRET = b"s" * 32
EXPIRES_S = 4_000_000_000


def shown(role, **claims):
    return Credentials(TOKEN, jwt.encode({"sub": role, **claims}, SECRET, "HS256").encode())


def connected(original: str, original_shown: Credentials | None, **more: Any) -> Principal:
    settings = SecuritySettings(
        authentication=True,
        methods=(TOKEN,),
        token_secret_key=base64.b64encode(SECRET).decode(),
        proxy_roles=frozenset({"proxy"}),
        **({"authorization": True, "original_authenticated": True} | more),
    )
    reader: Any = None
    return asyncio.run(BrokerSecurity(settings, reader).connect(shown("proxy"), original, original_shown))


def test_a_proxy_that_must_show_its_client_s_credentials_cannot_just_name_a_role():
    with pytest.raises(AuthenticationFailed):
        connected("admin", None)


@pytest.mark.parametrize("authorization", [True, False])
def test_the_credentials_of_a_proxy_s_client_say_its_role_and_expire(authorization):
    found = connected("admin", shown("app", exp=EXPIRES_S), authorization=authorization)
    assert found == Principal("proxy", "app", EXPIRES_S, original_verified=True)


def test_a_proxy_s_role_is_trusted_where_the_settings_say_so():
    assert connected("app", None, original_authenticated=False).roles == ("proxy", "app")
