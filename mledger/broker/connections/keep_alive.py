"""Whether a client lives that sends nothing: it is pinged, and its connection is cut if it does not answer."""

import asyncio
from typing import TYPE_CHECKING

from mledger.broker.protocol import answers
from mledger.metastore.runtime.logs.loggers import get_logger

if TYPE_CHECKING:
    from mledger.broker.connections.connection import BrokerConnection

log = get_logger(__name__)


class KeepAlive:
    """Watches one connection, which says when something comes."""

    def __init__(self, connection: "BrokerConnection") -> None:
        self._connection = connection
        self._heard = True
        self._timer: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[None] | None = None
        """Done once something comes, while somebody waits for that."""

    def heard(self) -> None:
        """Something came."""
        self._heard = True
        if self._answer is not None:
            self._answer.set_result(None)
            self._answer = None

    def watch(self) -> None:
        """Look after one interval whether something came."""
        interval_s = self._connection.broker.settings.keep_alive_s
        if interval_s > 0:
            self._timer = asyncio.get_running_loop().call_later(interval_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    async def lives(self, within_s: float) -> bool:
        """Whether something comes within so many seconds; if not, the connection is cut, and gone on return.

        Of a client whose requests are not read, or that has yet to take much of what was sent, nothing can be told: it
        counts as one that lives.
        """
        connection = self._connection
        if within_s <= 0 or not self._can_tell:
            return True
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
            connection.write(answers.PING)
        answer = self._answer
        await asyncio.wait([answer, connection.lost], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if answer.done() or not self._can_tell:
            return True
        self._cut()
        await asyncio.wait([connection.lost])
        return False

    @property
    def _can_tell(self) -> bool:
        connection = self._connection
        reads = not (connection.held_back or connection.unread)
        return reads and connection.writable and connection.features.takes_pings

    def _look(self) -> None:
        """Ask a silent client whether it lives; end the connection if it does not answer."""
        connection = self._connection
        if connection.unread:
            before, connection.unread = connection.unread, connection.unsent
            self._heard = self._heard or connection.unread < before
        if not self._heard and not connection.held_back:
            self._cut()
            return
        self._heard = False
        if not connection.connected:
            connection.close("no CONNECT in time")
            return
        if connection.features.takes_pings:
            connection.write(answers.PING)
        self.watch()

    def _cut(self) -> None:
        log.info("connection_closed", client=self._connection.address, reason="no answer to PING")
        self._connection.abort()  # a close would wait for what was written to be taken
