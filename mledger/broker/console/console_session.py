"""Who uses the console: credentials from a header or the console's cookie, as the admin API takes them. No I/O.

A form puts a token, or a user's name and password, into the cookie. Scripts cannot read it, and browsers send it with
requests of the console's own pages only.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from mledger.broker.admin_rest.refusals import bad_request
from mledger.broker.security.certificate_role import role_of

COOKIE = "mledger-console"
PATH = "/console"
LONGEST = 3_800
"""Of a cookie's value; browsers keep 4,096 bytes with its name and attributes."""


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """The Authorization header of a user, empty without credentials; `by_cookie`: the user can log out.

    `others` say who the user is besides: the role of a certificate, and of whom a proxy speaks.
    """

    authorization: str = field(default="", repr=False)
    by_cookie: bool = False
    others: tuple[str, str] = ("", "")

    @property
    def identity(self) -> str:
        """What plans are bound to: differs between users, and does not tell the credentials."""
        return hashlib.sha256(repr((self.authorization, *self.others)).encode()).hexdigest()


def plan_session(headers: Mapping[str, str], certificate: Mapping[str, object] | None = None) -> ConsoleSession:
    """The session of a request with these headers, in lower case. A header counts before the cookie."""
    others = role_of(certificate), headers.get("x-original-principal", "")
    if given := headers.get("authorization", ""):
        return ConsoleSession(given, others=others)
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        kept = "" if found is None else base64.urlsafe_b64decode(found.value).decode()
    except (CookieError, binascii.Error, ValueError):
        kept = ""
    return ConsoleSession(kept, by_cookie=bool(kept), others=others)


def plan_login(form: Mapping[str, str]) -> ConsoleSession:
    """The session of a token, or else of a user and password. AdminRefusal if the form has neither."""
    token, user = "".join(form.get("token", "").split()), form.get("user", "")
    if token:
        return _session(f"Bearer {token}")
    if user:
        pair = f"{user}:{form.get('password', '')}".encode(errors="surrogateescape")
        return _session(f"Basic {base64.b64encode(pair).decode()}")
    raise bad_request("give a token, or a user and a password")


def login_cookie(session: ConsoleSession, *, encrypted: bool) -> str:
    """The Set-Cookie header that keeps a session until the browser ends."""
    return _cookie(base64.urlsafe_b64encode(session.authorization.encode()).decode(), encrypted=encrypted)


def logout_cookie(*, encrypted: bool) -> str:
    """The Set-Cookie header that forgets the session."""
    return _cookie("", encrypted=encrypted) + "; Max-Age=0"


def _session(authorization: str) -> ConsoleSession:
    if not authorization.isprintable() or len(base64.b64encode(authorization.encode())) > LONGEST:
        raise bad_request(f"the credentials do not fit into a cookie of {LONGEST} bytes")
    return ConsoleSession(authorization, by_cookie=True)


def _cookie(value: str, *, encrypted: bool) -> str:
    secure = "; Secure" if encrypted else ""
    return f"{COOKIE}={value}; Path={PATH}; HttpOnly; SameSite=Strict{secure}"
