"""Authentication and authorization: a broker's settings under Pulsar's names."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mledger.broker.security.peer_settings import PeerSettings, peer_settings
from mledger.broker.security.tls_settings import BrokerTls
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import Settings, boolean, integer

_MAX_INT = 2**31 - 1
TOKEN, TLS, BASIC = "token", "tls", "basic"
_PROVIDERS = {
    "org.apache.pulsar.broker.authentication.AuthenticationProviderToken": TOKEN,
    "org.apache.pulsar.broker.authentication.AuthenticationProviderTls": TLS,
    "org.apache.pulsar.broker.authentication.AuthenticationProviderBasic": BASIC,
}
_AUTHORIZATION = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Who may connect, and whose role decides what a client may do. Keys are URLs, paths or base64.

    `methods` are the names under which clients send their credentials.
    """

    authentication: bool = False
    methods: tuple[str, ...] = ()
    refresh_check_s: float = 60.0
    anonymous_role: str = ""
    metrics_authenticated: bool = True

    token_secret_key: str = field(default="", repr=False)
    token_public_key: str = ""
    token_algorithm: str = ""
    token_role_claim: str = "sub"  # noqa: S105 - the name of a claim
    token_audience_claim: str = ""
    token_audience: str = ""
    token_clock_skew_s: float = 0.0
    password_file: str = field(default="", repr=False)

    authorization: bool = False
    super_users: frozenset[str] = frozenset()
    proxy_roles: frozenset[str] = frozenset()
    original_authenticated: bool = False
    wildcards: bool = False

    peers: PeerSettings = field(default_factory=PeerSettings, repr=False)
    peers_refresh_check_s: float = 300.0


class _SecurityKey(NamedTuple):
    """A key of broker.conf and the field it sets."""

    key: str
    field: str


SECURITY_KEYS = (
    _SecurityKey("authenticationEnabled", "authentication"),
    _SecurityKey("authenticationProviders", "methods"),
    _SecurityKey("authenticationRefreshCheckSeconds", "refresh_check_s"),
    _SecurityKey("anonymousUserRole", "anonymous_role"),
    _SecurityKey("authenticateMetricsEndpoint", "metrics_authenticated"),
    _SecurityKey("tokenSecretKey", "token_secret_key"),
    _SecurityKey("tokenPublicKey", "token_public_key"),
    _SecurityKey("tokenPublicAlg", "token_algorithm"),
    _SecurityKey("tokenAuthClaim", "token_role_claim"),
    _SecurityKey("tokenAudienceClaim", "token_audience_claim"),
    _SecurityKey("tokenAudience", "token_audience"),
    _SecurityKey("tokenAllowedClockSkewSeconds", "token_clock_skew_s"),
    _SecurityKey("basicAuthConf", "password_file"),
    _SecurityKey("authorizationEnabled", "authorization"),
    _SecurityKey("superUserRoles", "super_users"),
    _SecurityKey("proxyRoles", "proxy_roles"),
    _SecurityKey("authenticateOriginalAuthData", "original_authenticated"),
    _SecurityKey("authorizationAllowWildcardsMatching", "wildcards"),
)


def security_settings(settings: Settings, tls: BrokerTls) -> SecuritySettings:
    """The security part of `settings`; takes its keys. InvalidSetting says what is missing or contradictory."""
    take = settings.take
    found = SecuritySettings(
        authentication=take("authenticationEnabled", boolean, False),
        methods=take("authenticationProviders", _methods, ()),
        refresh_check_s=take("authenticationRefreshCheckSeconds", integer(1, _MAX_INT), 60.0),
        anonymous_role=take("anonymousUserRole", str, ""),
        metrics_authenticated=take("authenticateMetricsEndpoint", boolean, True),
        token_secret_key=take("tokenSecretKey", str, ""),
        token_public_key=take("tokenPublicKey", str, ""),
        token_algorithm=take("tokenPublicAlg", str, ""),
        token_role_claim=take("tokenAuthClaim", str, "sub"),
        token_audience_claim=take("tokenAudienceClaim", str, ""),
        token_audience=take("tokenAudience", str, ""),
        token_clock_skew_s=take("tokenAllowedClockSkewSeconds", integer(0, _MAX_INT), 0.0),
        password_file=take("basicAuthConf", str, ""),
        authorization=take("authorizationEnabled", boolean, False),
        super_users=take("superUserRoles", _roles, frozenset()),
        proxy_roles=take("proxyRoles", _roles, frozenset()),
        original_authenticated=take("authenticateOriginalAuthData", boolean, False),
        wildcards=take("authorizationAllowWildcardsMatching", boolean, False),
        peers=peer_settings(settings),
        peers_refresh_check_s=tls.refresh_check_s,
    )
    take("authorizationProvider", _provider, "")
    _check(found, tls)
    return found


def _check(found: SecuritySettings, tls: BrokerTls) -> None:
    if found.authorization and not found.authentication:
        raise InvalidSetting(
            "authorizationEnabled is true and authenticationEnabled is not: without authentication clients have no role"
        )
    if not found.authentication:
        return
    if not found.methods and not found.anonymous_role:
        raise InvalidSetting(
            "authenticationEnabled is true, and authenticationProviders and anonymousUserRole are empty: nobody could "
            "connect; name providers"
        )
    if TOKEN in found.methods and not (found.token_secret_key or found.token_public_key):
        raise InvalidSetting("AuthenticationProviderToken needs a key: set tokenSecretKey or tokenPublicKey")
    if found.token_audience_claim and not found.token_audience:
        raise InvalidSetting("tokenAudienceClaim is set and tokenAudience is not: name the audience of this broker")
    if BASIC in found.methods and not found.password_file:
        raise InvalidSetting("AuthenticationProviderBasic needs basicAuthConf: name the file that htpasswd writes")
    if TLS in found.methods and not (tls.used and tls.asks_for_certificates):
        raise InvalidSetting(
            "AuthenticationProviderTls needs verified certificates: set brokerServicePortTls or webServicePortTls and "
            "tlsTrustCertsFilePath, and leave tlsAllowInsecureConnection false"
        )


def _methods(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if any(name not in _PROVIDERS for name in names):
        raise ValueError(f"this broker has {', '.join(_PROVIDERS)}")
    return tuple(_PROVIDERS[name] for name in names)


def _provider(text: str) -> str:
    if text != _AUTHORIZATION:
        raise ValueError(f"this broker has {_AUTHORIZATION} only")
    return text


def _roles(text: str) -> frozenset[str]:
    return frozenset(role.strip() for role in text.split(",") if role.strip())
