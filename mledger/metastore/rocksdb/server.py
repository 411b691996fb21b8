"""The server process of a RocksDB metadata store: `mledger metadata run --dir DIR`.

Once it serves, it prints one JSON line on stdout: `{"url": "rocksdb:DIR", "pid": …}`. Logs go to stderr. SIGTERM ends
it. After kill -9, the next process resumes with the same tree and sessions.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from msgspec import Struct

from mledger.metastore.errors import InvalidMetadataDirectory, MetadataError
from mledger.metastore.rocksdb.directory import MetadataDirectory
from mledger.metastore.rocksdb.rows import Rows
from mledger.metastore.rocksdb.service import MOST_CLIENTS, Service
from mledger.metastore.runtime.announcement import print_serving
from mledger.metastore.runtime.logs.loggers import FORMATS, TEXT, get_logger, set_up_logging
from mledger.metastore.runtime.network.listening_port import allow_connections
from mledger.metastore.runtime.processes.event_loop import loop_factory

log = get_logger("mledger.metastore.rocksdb.server")  # it may be run as __main__

PROGRAM = "mledger metadata run"
_FILES_A_CLIENT = 2  # its connection, and its process, to notice when that ends


class MetadataServerOptions(Struct, frozen=True):
    """The options with which the process is started."""

    directory: str
    in_memory: bool = False
    log_level: str = "info"
    log_format: str = TEXT


class MetadataServer:
    """One directory served on the running loop; `open`, then `close`."""

    def __init__(self, directory: MetadataDirectory, rows: Rows | None, most_clients: int) -> None:
        """Use `open`."""
        self._directory = directory
        self._rows = rows
        self._service = Service(rows, most_clients)
        self._listener: asyncio.Server

    @classmethod
    async def open(cls, path: str, *, in_memory: bool = False, most_clients: int = MOST_CLIENTS) -> "MetadataServer":
        """Lock `path`, load its tree, and serve it; with `in_memory`, serve a new tree and store nothing.

        InvalidMetadataDirectory when the directory is in use or of another format, or its log is damaged.
        """
        directory = MetadataDirectory(path)
        rows, listener = None, None
        try:
            if in_memory and directory.begun:
                raise InvalidMetadataDirectory(f"{directory.path} already holds a store: name another")
            if not in_memory:
                directory.begin()
                rows = Rows(directory.rows)
                directory.keep_rows()
            server = cls(directory, rows, most_clients)
            listener = directory.listen()
            server._listener = await asyncio.get_running_loop().create_unix_server(
                server._service.connection, sock=listener
            )
        except BaseException:
            if listener is not None:
                listener.close()
            if rows is not None:
                rows.close()
            directory.unlock()
            raise
        return server

    @property
    def url(self) -> str:
        """The URL by which clients reach it."""
        return f"rocksdb:{self._directory.path}"

    @property
    def failed(self) -> "asyncio.Future[None]":
        """Completes with the error that forces the server to stop."""
        return self._service.failed

    async def close(self) -> None:
        """Stop serving; the sessions remain for the next process."""
        self._listener.close()
        self._service.close()
        if self._rows is not None:
            self._rows.close()
        self._directory.unlock()


async def serve(options: MetadataServerOptions) -> None:
    """Serve until SIGTERM or SIGINT. MetadataError when the server cannot start or must stop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    most = allow_connections(_FILES_A_CLIENT * MOST_CLIENTS) // _FILES_A_CLIENT
    server = await MetadataServer.open(options.directory, in_memory=options.in_memory, most_clients=most)
    try:
        print_serving({"url": server.url, "pid": os.getpid()})
        log.info("serving", url=server.url, in_memory=options.in_memory)
        stopped = asyncio.ensure_future(stop.wait())
        stopped.add_done_callback(lambda _: server.failed.done() or server.failed.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await server.failed
    finally:
        await server.close()
    log.info("stopped", url=server.url)


def parse_options(arguments: Sequence[str], program: str = PROGRAM) -> MetadataServerOptions:
    """The options of a command line; SystemExit(2) says what is wrong with it."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Serves the metadata store in DIR.",
    )
    parser.add_argument("--dir", required=True, help="the store's directory; created if missing")
    parser.add_argument("--in-memory", action="store_true", help="store nothing: the tree ends with the process")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default=TEXT, choices=FORMATS, help="json: one object per line")
    args = parser.parse_args(arguments)
    return MetadataServerOptions(args.dir, args.in_memory, args.log_level, args.log_format)


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run a metadata server; return its exit code. Messages call it `program`."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments, program)
    set_up_logging(options.log_format, options.log_level)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve(options))
    except MetadataError as error:
        log.error("failed", error=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
