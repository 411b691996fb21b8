"""The exporter's process: it serves metrics until SIGTERM or SIGINT, whether or not the metadata store answers.

Once it serves, it prints one JSON line on stdout: `{"url": "http://…/metrics", "port": …, "pid": …}`. Logs go to
stderr.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from mledger.bookie.client.connections.connector import BookieConnector
from mledger.exporter.cluster_reader import ClusterReader
from mledger.exporter.metrics import ExporterMetrics
from mledger.exporter.options import PROGRAM, ExporterOptions, parse_exporter_options
from mledger.exporter.rounds import ReadingRounds
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.announcement import print_serving
from mledger.metastore.runtime.logs.loggers import get_logger, set_up_logging
from mledger.metastore.runtime.network.http import HttpServer
from mledger.metastore.runtime.network.listening_port import bind_listener
from mledger.metastore.runtime.processes.event_loop import loop_factory
from mledger.metastore.runtime.processes.gc_pause import collect_seldom
from mledger.metastore.runtime.processes.priority import stand_back
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_reader

NICE = 10
"""Added to the process's niceness: whoever works for clients on the same machine comes first."""

log = get_logger(__name__)


async def serve(options: ExporterOptions) -> None:
    """Serve until SIGTERM or SIGINT. MledgerError when the address cannot be listened on."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as listening:
        listener = listening.enter_context(bind_listener(options.host, options.port))

        async def open_session() -> MetadataReader:
            return await open_reader(
                options.metadata, session_timeout=options.session_timeout_s, timeout=options.timeout_s
            )

        connector = BookieConnector(options.tls) if options.ask_bookies else None
        cluster = ClusterReader(options.config, options.worst, connector)
        rounds = ReadingRounds(cluster, open_session, options.rate, options.interval_s)
        server = HttpServer(ExporterMetrics(rounds).routes())
        await server.start_on(listener)
        _announce(options.host, listener.getsockname()[1])
        reading = asyncio.ensure_future(rounds.run())
        try:
            await stop.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await server.close()
    log.info("stopped")


def _announce(host: str, port: int) -> None:
    """Print one line on stdout to say that the exporter serves."""
    url = f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"
    print_serving({"url": url, "port": port, "pid": os.getpid()})
    log.info("serving", url=url)


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run an exporter; return its exit code. Messages call it `program`."""
    options = parse_exporter_options(sys.argv[1:] if arguments is None else arguments, program)
    set_up_logging(options.log_format, options.log_level)
    collect_seldom()
    stand_back(NICE)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve(options))
    except MledgerError as error:
        log.error("failed", error=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
