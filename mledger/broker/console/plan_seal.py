"""Seals of plans: a confirmation carries the plan that its user saw, and nobody else can write one.

A seal binds the plan to the user, to this process and to a time, and it is used once. That is also what keeps other
sites from sending confirmations (CSRF): they cannot read the page that has the seal.
"""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

VALID_MS = 10 * 60 * 1000
MOST_USED = 10_000
_SIGNATURE = hashlib.sha256().digest_size


class PlanSeal:
    """Seals with a key that ends with the process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._used: dict[str, int] = {}

    def seal(self, content: Mapping[str, Any], identity: str, now_ms: int) -> str:
        """Text for a form field that says `content`, of the user `identity`."""
        whole = {"content": dict(content), "time": now_ms, "once": secrets.token_hex(8)}
        data = json.dumps(whole, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._signature(data, identity) + data).decode()

    def unseal(self, sealed: str, identity: str, now_ms: int) -> dict[str, Any] | None:
        """The content, once; None if the seal is another user's, too old, used, or none of this process."""
        try:
            raw = base64.b64decode(sealed.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        signature, data = raw[:_SIGNATURE], raw[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._signature(data, identity)):
            return None
        whole = json.loads(data)
        once, time_ms = whole["once"], whole["time"]
        self._forget(now_ms)
        if once in self._used or not 0 <= now_ms - time_ms <= VALID_MS:
            return None
        self._used[once] = time_ms
        content: dict[str, Any] = whole["content"]
        return content

    def _signature(self, data: bytes, identity: str) -> bytes:
        return hmac.digest(self._key, identity.encode() + b"\n" + data, hashlib.sha256)

    def _forget(self, now_ms: int) -> None:
        """Forget seals that are too old to be used again."""
        if len(self._used) >= MOST_USED:
            self._used = {once: time_ms for once, time_ms in self._used.items() if now_ms - time_ms <= VALID_MS}
