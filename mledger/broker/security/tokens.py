"""Tokens (JWT): whose role one names, and until when.

The signature is checked with the keys of its own algorithm. What the claims then mean is a plain decision.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jwt

from mledger.broker.security.errors import AuthenticationFailed
from mledger.broker.security.security_settings import SecuritySettings
from mledger.broker.security.token_keys import TokenKey

_SIGNATURE_ONLY = {
    "verify_signature": True,
    **{f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
}


class TokenFacts(NamedTuple):
    """The role that a token names, and when it expires, in seconds since 1970; None: never."""

    role: str
    expires_s: float | None


class TokenVerifier:
    """Checks tokens with `keys`."""

    def __init__(self, settings: SecuritySettings, keys: Sequence[TokenKey]) -> None:
        self._settings = settings
        self._keys = keys

    def verify(self, token: str, now_s: float) -> TokenFacts:
        """What a token says. AuthenticationFailed says what is wrong with it, without the token."""
        return plan_token(self._claims(token), self._settings, now_s)

    def _claims(self, token: str) -> Mapping[str, Any]:
        if any(map(str.isspace, token)):
            raise AuthenticationFailed("the token is no JWT: leave out its white space, such as the end of a line")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise AuthenticationFailed("the token is no JWT") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        named = [key for key in self._keys if algorithm in key.algorithms]
        keys = [key for key in named if key.key_id == key_id] or [key for key in named if not key.key_id or not key_id]
        if not keys:
            raise AuthenticationFailed("the token is signed with an algorithm or key that this broker does not accept")
        for key in keys:
            try:
                return jwt.decode(token, key.key, algorithms=[str(algorithm)], options=_SIGNATURE_ONLY)  # type: ignore[arg-type]
            except jwt.InvalidSignatureError:
                continue
            except (jwt.PyJWTError, ValueError, TypeError):
                raise AuthenticationFailed("the token is no JWT") from None
        raise AuthenticationFailed("the token's signature is not that of this broker's key")


def plan_token(claims: Mapping[str, Any], settings: SecuritySettings, now_s: float) -> TokenFacts:
    """What verified claims mean at `now_s`. AuthenticationFailed if they do not name a role for this broker now."""
    skew = settings.token_clock_skew_s
    expires, begins = _time(claims, "exp"), _time(claims, "nbf")
    if expires is not None and now_s >= expires + skew:
        raise AuthenticationFailed("the token has expired")
    if begins is not None and now_s < begins - skew:
        raise AuthenticationFailed("the token is not valid yet")
    if settings.token_audience_claim:
        audience = claims.get(settings.token_audience_claim)
        if settings.token_audience not in (audience if isinstance(audience, list) else [audience]):
            raise AuthenticationFailed("the token is for another audience")
    role = claims.get(settings.token_role_claim)
    if isinstance(role, list):
        role = role[0] if role else None
    if not isinstance(role, str) or not role:
        raise AuthenticationFailed(f"the token names no role: its claim {settings.token_role_claim!r} is no text")
    return TokenFacts(role, None if expires is None else expires + skew)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:  # an integer beyond all floats
        pass
    raise AuthenticationFailed(f"the token's claim {name!r} is no time")
