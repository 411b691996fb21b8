"""The sessions of a metadata server, and when one has been silent for too long. No I/O; times from the caller's clock.

While the server itself stood still, it left heartbeats unread: that time does not count against a session. A server
that stands still again and again, on a slow disk or with little CPU, must not keep the sessions of dead clients: what
does not count is limited until the client is heard again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from mledger.metastore.rocksdb.peer import PeerProcess

if TYPE_CHECKING:
    from mledger.metastore.rocksdb.server_connection import ServerConnection

SHORTEST_S = 0.1
STALL_S = 0.1
"""Seconds by which a timer must be late for the server to count as stalled."""
_IDS_PER_MS = 1 << 20


def ids_from(started: float) -> int:
    """The id after which a server's session ids begin; `started` is the time of its start, in seconds since 1970.

    A server that lost its store, or was given an older copy, does not know which ids it has assigned. Since they rise
    from start to start, it assigns none that a client of the former store still holds: such a client, when it returns,
    hears that its session has ended, and does not take over another's.
    """
    return int(started * 1000) * _IDS_PER_MS


class ServerSession(Struct, eq=False):
    """One client's session; it outlives its connections."""

    session_id: int
    timeout_s: float
    deadline: float
    process: PeerProcess | None = None
    process_end: int | None = None  # a descriptor, see peer.end_of
    connection: "ServerConnection | None" = None
    excused_s: float = 0.0

    def heard(self, now: float) -> None:
        """Note a sign of life of the client."""
        self.deadline = now + self.timeout_s
        self.excused_s = 0.0

    def excuse(self, stalled_s: float) -> bool:
        """Do not count a stall of the server; False if stalls, each for half the time-out at most, have used it up."""
        if self.excused_s >= self.timeout_s:
            return False
        self.excused_s += min(stalled_s, self.timeout_s / 2)
        self.deadline += stalled_s
        return True


class Sessions:
    """All sessions, by id."""

    def __init__(self, last_id: int = 0) -> None:
        """No session yet; new ones get ids above `last_id`."""
        self._sessions: dict[int, ServerSession] = {}
        self.last_id = last_id

    def __iter__(self) -> Iterator[ServerSession]:
        return iter(list(self._sessions.values()))

    def begin(self, timeout_s: float, now: float) -> ServerSession:
        """A new session."""
        self.last_id += 1
        return self.restore(self.last_id, timeout_s, now)

    def restore(self, session_id: int, timeout_s: float, now: float) -> ServerSession:
        """Restore a former process's session; it gets its whole time-out, from `now`."""
        timeout_s = max(timeout_s, SHORTEST_S)
        session = ServerSession(session_id, timeout_s, now + timeout_s)
        self._sessions[session_id] = session
        self.assigned(session_id)
        return session

    def assigned(self, session_id: int) -> None:
        """Note an id that was assigned; new sessions get higher ones."""
        self.last_id = max(self.last_id, session_id)

    def get(self, session_id: int) -> ServerSession | None:
        """The session with that id, None if it has ended or never existed."""
        return self._sessions.get(session_id)

    def remove(self, session: ServerSession) -> None:
        """Forget a session."""
        del self._sessions[session.session_id]

    def next_deadline(self) -> float | None:
        """When the first session will time out; None without sessions."""
        return min((session.deadline for session in self._sessions.values()), default=None)

    def plan_expired(self, planned: float, now: float) -> list[ServerSession]:
        """The sessions that expire at `now`; the check was due at `planned`. A stall extends those that it may."""
        late = now - planned
        sessions = list(self._sessions.values())
        if late > STALL_S:
            sessions = [session for session in sessions if not session.excuse(late + STALL_S)]
        return [session for session in sessions if session.deadline <= now]
