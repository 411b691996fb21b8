"""Passwords are checked one after the other, on a thread of their own: a check takes long by design.

Anybody can send wrong ones. So many at once take the time of one thread from the messages of others, and what else runs
on threads does not wait for them. A user whose password was right once waits for none: it is compared with that.
"""

import asyncio
import hashlib
import hmac
import secrets
from concurrent.futures import ThreadPoolExecutor

from mledger.broker.security.errors import AuthenticationBusy
from mledger.broker.security.passwords import PasswordFile

MOST_WAITING = 32
"""How many checks may wait for one another; a further client has to come again."""


class PasswordQueue:
    """Checks passwords by `file`."""

    def __init__(self, file: PasswordFile) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._waiting = 0
        self._key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}  # by user, no password itself

    async def check(self, user: str, password: str) -> str:
        """The user's role.

        Raises:
            AuthenticationFailed: there is no such user, or that is not the password.
            AuthenticationBusy: too many checks wait already.
        """
        shown = hmac.digest(self._key, password.encode(errors="surrogateescape"), hashlib.sha256)
        if hmac.compare_digest(shown, self._right.get(user, b"")):
            return user
        if self._waiting >= MOST_WAITING:
            raise AuthenticationBusy(f"{self._waiting} passwords are being checked: try again later")
        self._waiting += 1
        try:
            role = await asyncio.get_running_loop().run_in_executor(self._thread, self._file.verify, user, password)
        finally:
            self._waiting -= 1
        self._right[user] = shown
        return role
