"""The role of a client in its certificate, as Pulsar's AuthenticationProviderTls finds it. No I/O.

Pulsar writes the subject as text by RFC 2253, the last part first, and cuts it at its commas, escaped ones too. The
role is what follows the first `CN=` at the start of a part, as it is written: of the name `billing, west` it is
`billing\\`.
"""

import re
from collections.abc import Mapping
from typing import Any

_CN = "commonName"
_KEYWORDS = {
    _CN: "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""What RFC 2253 calls the attributes that it knows."""
_ESCAPED = re.compile(r'[,=+<>#;"\\]')
_BLANK = " \r"


def role_of(certificate: Mapping[str, object] | None) -> str:
    """The role in a verified certificate, as `getpeercert` gives it; empty if it has none."""
    subject: Any = (certificate or {}).get("subject", ())
    for part in reversed(subject):
        if part[0][0] != _CN:
            continue
        if any(kind not in _KEYWORDS for kind, _ in part):
            return ""  # Java writes attributes that RFC 2253 does not know by their bytes, which are not given here
        text = "+".join(f"{_KEYWORDS[kind]}={_escaped(value)}" for kind, value in part)
        role = text.removeprefix("CN=").split(",")[0]
        if role:
            return role
    return ""


def _escaped(value: str) -> str:
    """The value of an attribute as Java writes it."""
    text = _ESCAPED.sub(r"\\\g<0>", value).replace("\0", "\\00")
    inner = text.strip(_BLANK)
    start = len(text) - len(text.lstrip(_BLANK))
    end = start + len(inner)
    return "".join(f"\\{each}" for each in text[:start]) + inner + "".join(f"\\{each}" for each in text[end:])
