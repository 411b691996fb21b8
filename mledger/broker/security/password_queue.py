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

MOST_WAITING = 1024
"""How many checks for clients of the binary protocol may wait for one another; a further client has to come again.

Where few may wait, those who send wrong passwords, refused at once, come again at once: they take each place that
becomes free before a user who has not been here yet.
"""
MOST_WAITING_HTTP = 128
"""The same of requests over HTTP: half of all connections, so that the others are left for those who do not wait."""


class PasswordQueue:
    """Checks passwords by `file`."""

    def __init__(self, file: PasswordFile) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._places = {False: MOST_WAITING, True: MOST_WAITING_HTTP}  # that are free, over HTTP or not
        self._key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}  # by user, no password itself

    async def check(self, user: str, password: str, *, http: bool = False) -> str:
        """The user's role; `http`: a request over HTTP asks.

        Raises:
            AuthenticationFailed: there is no such user, or that is not the password.
            AuthenticationBusy: too many checks wait already.
        """
        shown = hmac.digest(self._key, password.encode(errors="surrogateescape"), hashlib.sha256)
        if hmac.compare_digest(shown, self._right.get(user, b"")):
            return user
        if not self._places[http]:
            raise AuthenticationBusy("too many passwords are being checked: try again later")
        self._places[http] -= 1
        try:
            role = await asyncio.get_running_loop().run_in_executor(self._thread, self._file.verify, user, password)
        finally:
            self._places[http] += 1
        self._right[user] = shown
        return role
