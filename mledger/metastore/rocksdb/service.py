"""The metadata server's work: it takes the requests of all clients in turns; each turn is one write and one sync.

- All answers of a turn, reads included, are sent after the sync of its writes: nobody sees what could still be lost.
- Requests that arrive during a sync belong to the next turn: group commit needs no timer.
- A session ends when its client ends it, when it was silent for its time-out, or when its process has certainly ended.
- A failed write or sync ends the process; it is never retried.
"""

import asyncio
import os
import time

from mledger.metastore.errors import InvalidMetadataDirectory, MetadataAccessDenied, MetadataError
from mledger.metastore.memory.tree import MemoryTree
from mledger.metastore.records.node_path import ancestors_of, check_path
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.peer import end_of, is_gone
from mledger.metastore.rocksdb.rows import Rows
from mledger.metastore.rocksdb.server_connection import ServerConnection
from mledger.metastore.rocksdb.sessions import ServerSession, Sessions, ids_from
from mledger.metastore.rocksdb.wire import WireError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.connection_limit import ConnectionLimit
from mledger.metastore.store import Create, NodeChange, Operation

log = get_logger(__name__)

MOST_CLIENTS = 4_000
"""Connections at once. Each has a file, and so has its session's process: RocksDB must never find none left."""
FOUND_BYTES = 4 << 20
"""Bytes of nodes in one answer, unless the first alone has more."""
_ANSWER_ROOM = 64  # bytes of an answer besides its nodes


class Service:
    """A tree served to connections, on one event loop."""

    def __init__(self, rows: Rows | None, most_clients: int = MOST_CLIENTS) -> None:
        """Serve the tree in `rows`; without rows, a new tree that is never stored. Use on a running loop.

        More than `most_clients` connections at once are closed.
        """
        self._loop = asyncio.get_running_loop()
        self._rows = rows
        self._changed: set[str] = set()
        self._counted: set[str] = set()
        self._tree = MemoryTree(self._note)
        self._sessions = Sessions(ids_from(time.time()))
        self._inbox: list[tuple[ServerConnection, pb.Request]] = []
        self._ending: list[ServerSession] = []
        self._turn_planned = False
        self._look: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._connections: set[ServerConnection] = set()
        self._gate = ConnectionLimit(most_clients)
        self._answered: list[ServerConnection] = []
        self.failed: asyncio.Future[None] = self._loop.create_future()
        if rows is not None:
            self._restore(rows)

    def connection(self) -> ServerConnection:
        """The protocol of a new connection."""
        connection = ServerConnection(self)
        self._connections.add(connection)
        return connection

    def admits(self, connection: ServerConnection) -> bool:
        """Whether the limit lets a new connection in; `lost` lets another one take its place."""
        return self._gate.enter(f"pid {connection.process and connection.process.pid}")

    def submit(self, connection: ServerConnection, request: pb.Request) -> None:
        """Answer a request in the next turn."""
        self._inbox.append((connection, request))
        self._plan_turn()

    def answered(self, connection: ServerConnection) -> None:
        """Send what was put into a connection at the end of the turn."""
        self._answered.append(connection)

    def lost(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended; its session may get another one, unless its process has ended."""
        self._connections.discard(connection)
        if connection.admitted:
            self._gate.leave()
        for path, children, watcher in connection.watches.values():
            self._tree.unwatch(path, children, watcher)
        connection.watches.clear()
        session, connection.session = connection.session, None
        if session is not None and session.connection is connection:
            session.connection = None
            if session.process is not None and is_gone(session.process):
                self._end_soon(session)

    def close(self) -> None:
        """Stop answering; the sessions remain for the next process."""
        if self._look is not None:
            self._look.cancel()
        for connection in list(self._connections):
            connection.stop()
        for session in self._sessions:
            self._unfollow(session)

    def _restore(self, rows: Rows) -> None:
        self._tree.restore(rows.nodes())
        now = time.monotonic()
        self._sessions.assigned(rows.last_session_id())
        for session_id, timeout_s, process in rows.sessions():
            session = self._sessions.restore(session_id, timeout_s, now)
            session.process = process
            self._follow(session)
        self._plan_look()

    # Turns.

    def _plan_turn(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_planned = False
        if self.failed.done():
            return
        requests, self._inbox = self._inbox, []
        ending, self._ending = self._ending, []
        for connection, request in requests:
            if connection.postpones(request):
                continue
            try:
                self._answer(connection, request)
            except WireError as error:
                connection.abort(str(error))
        for session in ending:
            if self._sessions.get(session.session_id) is session:
                self._end(session)
        try:
            self._commit()
        except Exception as error:  # RocksDB's: it is not known what is on disk now
            self.failed.set_exception(InvalidMetadataDirectory(f"a write failed, none of it was answered: {error}"))
            return
        answered, self._answered = self._answered, []
        for connection in answered:
            connection.flush()

    def _commit(self) -> None:
        rows = self._rows
        if rows is not None:
            for path in self._changed | self._counted:
                record = self._tree.record(path)
                if record is None:
                    rows.delete_node(path)
                    continue
                if path in self._changed or path == "/":  # a root that was never written has no row yet
                    rows.put_node(record)
                rows.put_count(path, record.children_created)
            rows.commit()
        self._changed.clear()
        self._counted.clear()

    def _note(self, path: str, change: NodeChange) -> None:
        (self._counted if change is NodeChange.CHILDREN else self._changed).add(path)

    # Requests.

    def _answer(self, connection: ServerConnection, request: pb.Request) -> None:
        if connection.ending:
            return
        body = request.WhichOneof("body")
        if connection.greeted == (body == "hello"):
            raise WireError("a connection begins with one greeting")
        answer = pb.Answer(id=request.id)
        try:
            self._carry_out(connection, request, body, answer)
        except MetadataError as error:
            wire.fill_refused(answer.refused, error)
        connection.put(wire.frame(answer))

    def _carry_out(
        self, connection: ServerConnection, request: pb.Request, body: str | None, answer: pb.Answer
    ) -> None:
        match body:
            case "read":
                self._read(request.read, answer.found)
                return
            case "write":
                self._write(connection, request.write, answer.written)
                return
            case "hello":
                self._greet(connection, request.hello, answer)
                return
            case "watch":
                self._watch(connection, request.watch)
            case "unwatch":
                self._unwatch(connection, request.unwatch.watch_id)
            case "list_sessions":
                answer.session_ids.ids.extend(session.session_id for session in self._sessions)
                return
            case "goodbye":
                self._leave(connection)
            case "ping":
                pass
            case _:
                raise WireError("a request of an unknown kind")
        answer.done.SetInParent()

    def _read(self, read: pb.Read, found: pb.Found) -> None:
        found.SetInParent()
        size = 0
        for path in read.paths:
            node = self._tree.node(path)
            added = found.nodes.add()
            if node is None:
                continue
            wire.fill_stat(added.stat, node.stat)
            if read.want == pb.Read.DATA:
                added.data = node.data
                size += len(node.data)
            elif read.want == pb.Read.CHILDREN:
                names = self._tree.children(path) or []
                added.children.extend(names)
                size += sum(map(len, names))
            if size > FOUND_BYTES:
                break
        if 2 * size > wire.MAX_ANSWER and found.ByteSize() + _ANSWER_ROOM > wire.MAX_ANSWER:
            path = read.paths[len(found.nodes) - 1]
            what = f"their names take {size} bytes, and an answer holds {wire.MAX_ANSWER}"
            raise MetadataError(f"{path} has too many children to be listed: {what}", path)

    def _write(self, connection: ServerConnection, write: pb.Write, written: pb.Written) -> None:
        if connection.session is None:
            raise MetadataAccessDenied("this connection was opened read-only")
        operations = wire.operations_of(write)
        missing: list[Operation] = []
        if write.with_parents and operations:
            above = ancestors_of(check_path(operations[0].path))
            missing = [Create(path) for path in above if self._tree.record(path) is None]
        results = self._tree.apply([*missing, *operations], connection.session.session_id)
        wire.fill_written(written, results[len(missing) :])

    def _watch(self, connection: ServerConnection, watch: pb.Watch) -> None:
        watch_id = watch.watch_id
        if watch_id in connection.watches:
            raise WireError(f"watch {watch_id} is set already")

        def tell(change: NodeChange) -> None:
            connection.put(wire.event_of(watch_id, change))

        self._tree.watch(watch.path, watch.children, tell)
        connection.watches[watch_id] = (watch.path, watch.children, tell)

    def _unwatch(self, connection: ServerConnection, watch_id: int) -> None:
        if watch_id in connection.watches:
            self._tree.unwatch(*connection.watches.pop(watch_id))

    # Sessions.

    def _greet(self, connection: ServerConnection, hello: pb.Hello, answer: pb.Answer) -> None:
        if hello.protocol != wire.PROTOCOL:
            raise MetadataError(
                f"the client speaks protocol {hello.protocol}, the metadata server {wire.PROTOCOL}: use one version of "
                "mledger for both"
            )
        connection.greeted = True
        if hello.only_reads:
            answer.welcome.SetInParent()
            return
        now = time.monotonic()
        if hello.session_id:
            session = self._sessions.get(hello.session_id)
            if session is None:
                answer.expired.SetInParent()
                connection.ending = True
                return
        else:
            session = self._sessions.begin(hello.timeout_ms / 1000, now)
            if self._rows is not None:
                self._rows.put_last_session_id(session.session_id)
        self._attach(session, connection, new=not hello.session_id)
        session.heard(now)
        self._plan_look()
        answer.welcome.session_id = session.session_id

    def _attach(self, session: ServerSession, connection: ServerConnection, *, new: bool) -> None:
        if session.connection is not None:
            session.connection.session = None
            session.connection.abort("its client has connected anew")
        session.connection, connection.session = connection, session
        if new or session.process != connection.process:
            self._unfollow(session)
            session.process = connection.process
            self._follow(session)
            if self._rows is not None:
                self._rows.put_session(session.session_id, session.timeout_s, session.process)

    def _leave(self, connection: ServerConnection) -> None:
        session, connection.session = connection.session, None
        if session is not None:
            session.connection = None
            self._end(session)
        connection.ending = True

    def _end(self, session: ServerSession) -> None:
        """Delete the session and its ephemeral nodes, and notify its client if it is connected."""
        self._tree.end_session(session.session_id)
        self._sessions.remove(session)
        self._unfollow(session)
        if self._rows is not None:
            self._rows.delete_session(session.session_id)
        if session.connection is not None:
            session.connection.put(wire.frame(pb.Answer(expired=pb.Expired())))
            session.connection.ending = True
            session.connection.session = None
        log.info("session_ended", session=session.session_id, pid=session.process and session.process.pid)

    def _end_soon(self, *sessions: ServerSession) -> None:
        if sessions:
            self._ending += sessions
            self._plan_turn()

    def _follow(self, session: ServerSession) -> None:
        """End the session when its process ends, where the system can tell."""
        if session.process is None:
            return
        session.process_end = end_of(session.process)
        if session.process_end is not None:
            self._loop.add_reader(session.process_end, self._process_ended, session)
        elif is_gone(session.process):
            self._end_soon(session)

    def _unfollow(self, session: ServerSession) -> None:
        if session.process_end is not None:
            self._loop.remove_reader(session.process_end)
            os.close(session.process_end)
            session.process_end = None

    def _process_ended(self, session: ServerSession) -> None:
        self._unfollow(session)
        self._end_soon(session)

    def _plan_look(self) -> None:
        """Schedule the next check of the sessions' time-outs."""
        deadline = self._sessions.next_deadline()
        if deadline is None or (self._look is not None and self._look_at <= deadline):
            return
        if self._look is not None:
            self._look.cancel()
        now = time.monotonic()
        self._look_at = max(deadline, now)
        self._look = self._loop.call_later(self._look_at - now, self._look_at_sessions)

    def _look_at_sessions(self) -> None:
        self._look = None
        self._end_soon(*self._sessions.plan_expired(self._look_at, time.monotonic()))
        self._loop.call_soon(self._plan_look)  # after the turn that ends them
