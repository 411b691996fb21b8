"""Which changes are refused because a page of another site asks for them in somebody's browser. No I/O.

A browser sends requests of any page to any address, with its user's certificate and network. Programs send neither of
the headers that tell where a browser's request comes from; their requests are never refused here.

- `Sec-Fetch-Site` decides if there is one. Pages cannot set it, and browsers send it to HTTPS and to this machine only,
  where the name of the host is certain.
- Else `Origin` has to name the host that was asked. Whoever owns that name can have it lead to this broker while one
  of their pages is open (DNS rebinding). Where a request needs no credentials the host must therefore be an address,
  a name that nobody can register, or the broker's own name.
"""

from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.connections.served_broker import ServedBroker
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_SAFE = ("GET", "HEAD", "OPTIONS")
_CREATES = "checkAllowAutoCreation"
"""The parameter with which a GET creates a topic."""
_UNREGISTERED = (".localhost", ".local", ".internal", ".test", ".home.arpa")
_ANOTHER_SITE = "a page of another site asks for this change: only pages of this broker may"
_PROXY = "; a proxy before the broker must pass the Host header on"


def check_origin(request: AdminRequest, broker: ServedBroker) -> None:
    """Raise AdminRefusal (403), and log it, if a page of another site asks for a change."""
    security, address = broker.security.settings, broker.owners.roster.address
    open_to_all = not security.authentication or bool(security.anonymous_role)
    own = [urlsplit(url).hostname or "" for url in (address.web_url, address.web_url_tls, address.url, address.url_tls)]
    reason = plan_origin(request, own if open_to_all else None)
    if reason:
        origin = request.headers.get("origin", "")
        log.warning("request_of_another_site", method=request.method, path=request.path, origin=origin)
        raise AdminRefusal(HTTPStatus.FORBIDDEN, reason)


def plan_origin(request: AdminRequest, own_names: Iterable[str] | None) -> str:
    """Why a request is refused, empty if it is not; `own_names` are the broker's, None if all need credentials."""
    if request.method in _SAFE and not request.flag(_CREATES):
        return ""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return "" if site in ("same-origin", "none") else _ANOTHER_SITE
    if origin is None:
        return ""
    page = _split(origin)
    asked = _split(f"//{request.headers.get('host', '')}")
    if page is None or asked is None or page.netloc.lower() != asked.netloc.lower():
        return _ANOTHER_SITE + _PROXY
    if request.encrypted and page.scheme != "https":
        return _ANOTHER_SITE
    name = (asked.hostname or "").rstrip(".")
    if own_names is None or name in own_names or _safe_from_rebinding(name):
        return ""
    return (
        f"{name} is not this broker's name, and whoever owns it could have it lead here: use the broker's IP "
        f"address, or HTTPS, or announce the name (advertisedAddress)"
    )


def _split(url: str) -> SplitResult | None:
    """The parts of a URL that has a host, None if it has none."""
    try:
        found = urlsplit(url)
        return found if found.hostname else None
    except ValueError:
        return None


def _safe_from_rebinding(name: str) -> bool:
    """Whether a host is an address, or a name that is never looked up in the public DNS."""
    try:
        ip_address(name)
    except ValueError:
        return "." not in name or name.endswith(_UNREGISTERED)
    return True
