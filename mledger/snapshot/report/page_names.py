"""Where the page of a namespace is: names that every file system takes and keeps apart; pure."""

import hashlib
from urllib.parse import quote

INDEX = "index.html"
NAMESPACES_AT = "namespaces"
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST = 120


def page_at(namespace: str, *, for_link: bool = False) -> str:
    """The path of a namespace's page below the report's directory; with `for_link` as the address in a link.

    A slash becomes `+`. All else but small letters, digits, `-` and `_` becomes `=` and its two hexadecimal digits:
    some file systems do not tell capital letters from small ones. A long name ends in its digest.
    """
    data = namespace.encode(errors="surrogatepass")
    name = "".join("+" if byte == ord("/") else chr(byte) if byte in _KEPT else f"={byte:02x}" for byte in data)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{hashlib.sha256(data).hexdigest()[:16]}"
    path = f"{NAMESPACES_AT}/{name}.html"
    return quote(path, safe="/+=~") if for_link else path
