"""Authentication: from a client's credentials to its role, by the providers of the settings."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from mledger.broker.security.certificate_role import role_of
from mledger.broker.security.credentials import Credentials
from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.key_source import read_source
from mledger.broker.security.password_queue import PasswordQueue
from mledger.broker.security.passwords import decode_passwords
from mledger.broker.security.principals import Principal
from mledger.broker.security.security_settings import BASIC, TLS, TOKEN, SecuritySettings
from mledger.broker.security.token_keys import read_token_keys
from mledger.broker.security.tokens import TokenVerifier
from mledger.metastore.runtime.times import wall_clock_ms

_LONGEST_NAME = 40
"""Of a method, in what is logged: a client can name any text."""


class Authenticator:
    """Checks credentials. InvalidSetting when made, if a key or a password file cannot be read."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        methods = settings.methods
        self._tokens = TokenVerifier(settings, read_token_keys(settings)) if TOKEN in methods else None
        self._passwords: PasswordQueue | None = None
        if BASIC in methods:
            self._passwords = PasswordQueue(decode_passwords(read_source("basicAuthConf", settings.password_file)))

    async def authenticate(self, shown: Credentials, *, http: bool = False) -> Principal:
        """The client's role; without credentials that of anonymous clients. `http`: it has sent a request over HTTP.

        Raises:
            AuthenticationFailed: the credentials are wrong, or there are none and no role for that.
            AuthenticationBusy: too many passwords are being checked.
        """
        if shown.method not in self._settings.methods:
            if self._settings.anonymous_role:
                return Principal(self._settings.anonymous_role)
            named = f"the method {shown.method[:_LONGEST_NAME]!r}" if shown.method else "no method"
            raise AuthenticationFailed(f"the client names {named}: {', '.join(self._settings.methods)} is needed")
        if shown.method == TLS:
            role = role_of(shown.certificate)
            if not role:
                raise AuthenticationFailed("the client has no certificate with a common name")
            return Principal(role)
        try:
            text = shown.data.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("the credentials are no text") from None
        if self._tokens is not None and shown.method == TOKEN:
            found = self._tokens.verify(text, wall_clock_ms() / 1000)
            return Principal(found.role, expires_s=found.expires_s)
        assert self._passwords is not None
        user, _, password = text.partition(":")
        return Principal(await self._passwords.check(user, password, http=http))

    async def of_http(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> Principal:
        """The role of a request's client, by its headers in lower case. As `authenticate`."""
        return await self.authenticate(plan_credentials(headers, certificate, self._settings.methods), http=True)


def plan_credentials(
    headers: Mapping[str, str], certificate: Mapping[str, Any] | None, methods: tuple[str, ...]
) -> Credentials:
    """The credentials of an HTTP request: its Authorization header, else the certificate of its connection.

    Raises:
        AuthenticationFailed: the header cannot be read.
    """
    scheme, _, data = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return Credentials(TOKEN, data.strip().encode(errors="surrogateescape"))
    if scheme.lower() == "basic":
        try:
            return Credentials(BASIC, base64.b64decode(data.strip(), validate=True))
        except (binascii.Error, ValueError):
            raise AuthenticationFailed("the Authorization header is not Basic: its data is no base64") from None
    if certificate and TLS in methods:
        return Credentials(TLS, certificate=certificate)
    return Credentials("")
