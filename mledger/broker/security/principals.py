"""Who a client is: its role, and that of the client for which a proxy speaks."""

from typing import NamedTuple

from mledger.broker.security.errors import AuthenticationFailed, NotAuthorized


class Principal(NamedTuple):
    """A client's role, which is empty without authentication; behind a proxy, `original` is its client's.

    `expires_s` is in seconds since 1970, None: never. Behind a proxy it is that of the client's own credentials if
    these were checked (`original_verified`), else that of the proxy's.
    """

    role: str = ""
    original: str = ""
    expires_s: float | None = None
    original_verified: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that all must be permitted what the client asks for."""
        return (self.role, self.original) if self.original else (self.role,)


ANYBODY = Principal()


def plan_principal(principal: Principal, original: str, proxies: frozenset[str], *, over_http: bool) -> Principal:
    """The client behind `principal`, which says that it speaks for `original`.

    Raises:
        NotAuthorized: only a proxy's role speaks for others, and it always does; over HTTP, others may name themselves.
    """
    if principal.role in proxies:
        if not original:
            raise NotAuthorized("a proxy's role needs the role of its client (original principal)")
        if original in proxies:
            raise NotAuthorized("a proxy's client (original principal) is another proxy")
    elif original and not (over_http and original == principal.role):
        raise NotAuthorized("only a proxy's role (proxyRoles) may name an original principal")
    return principal._replace(original=original)


def plan_renewal(before: Principal, now: Principal) -> Principal:
    """The principal of renewed credentials. AuthenticationFailed if they are another role's."""
    if now.role != (before.original if before.original_verified else before.role):
        raise AuthenticationFailed("renewed credentials are of another role than those before")
    return before._replace(expires_s=now.expires_s)
