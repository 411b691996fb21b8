"""Authorization by the roles in clients' certificates, as BookKeeper's BookieAuthZFactory grants it.

The subject's first organizational unit holds the roles, as in `OU=0:broker,reader;1:cluster`: under the number 0,
separated by commas. The first one counts. Of a part with several attributes Java sees the first by name. Without such a
role, every request of a connection is refused; it stays open.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from mledger.bookie.server.serving.auth import AuthStep

PLUGIN = "BookieAuthZFactory"

_ROLES = "0"
_UNIT = "organizationalUnitName"
_BEHIND = (_UNIT, "stateOrProvinceName", "streetAddress", "userId")
"""What comes after OU by name: ST, STREET and UID. Attributes that have no short name come before it, by number."""
_PART = re.compile(r"([0-9]+):(.*)")


class CertificateRoles:
    """The authorization of one connection. Clients send no auth messages: their certificate is what they show."""

    plugin = PLUGIN

    def __init__(self, authorized: Collection[str]) -> None:
        self._authorized = authorized

    def process(self, payload: bytes) -> AuthStep:
        """Refuse: a message proves nothing."""
        return AuthStep(None)

    def refusal(self, certificate: Mapping[str, object] | None) -> str:
        """Why a connection with this certificate, as `getpeercert` gives it, is refused; empty if it is not."""
        if not certificate:
            return "it showed no certificate (tlsClientAuthentication asks for one)"
        role = role_of(certificate)
        if not role:
            return "its certificate has no role: the subject's organizational unit (OU) is to be 0:ROLE"
        if role not in self._authorized:
            return f"its role {role} is none of authorizedRoles"
        return ""


def role_of(certificate: Mapping[str, object]) -> str:
    """The role that counts in a certificate; empty if it has none."""
    subject: Any = certificate.get("subject", ())
    seen = (part for part in subject if all(kind in _BEHIND for kind, _ in part))
    units = [value for part in seen for kind, value in part if kind == _UNIT]
    found = ""
    for text in str(units[0]).split(";") if units else ():
        part = _PART.match(text)
        if part is not None and part[1] == _ROLES:
            found = part[2].split(",")[0].strip()
    return found
