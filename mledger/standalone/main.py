"""The process of a standalone: `mledger standalone`.

Once it serves, it prints one line on stdout, as JSON if asked: the URLs for clients and for HTTP, that of its metadata
store, its directory, its pid. Logs go to stderr. SIGTERM and SIGINT end it in order. After kill -9 the next process on
the same directory goes on with everything that was acknowledged.
"""

import asyncio
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from mledger.broker.process.main import report_settings
from mledger.broker.process.shutdown_limit import limit_shutdown
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.announcement import print_line, print_serving
from mledger.metastore.runtime.logs.loggers import get_logger, set_up_logging
from mledger.metastore.runtime.processes.event_loop import loop_factory
from mledger.metastore.runtime.processes.gc_pause import collect_seldom
from mledger.standalone.addresses import StandaloneAddresses
from mledger.standalone.options import PROGRAM, StandaloneOptions, parse_standalone_options, plan_standalone_broker
from mledger.standalone.server import open_standalone

log = get_logger("mledger.standalone.main")  # it may be run as __main__

Announce = Callable[[StandaloneAddresses, str], None]


async def serve(options: StandaloneOptions, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT. MledgerError when it cannot start, or cannot go on."""
    serving = asyncio.create_task(_serve(options, announce))
    stopping = asyncio.Event()

    def stop() -> None:
        if not stopping.is_set():  # the orderly end is not to be cancelled
            stopping.set()
            serving.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await serving
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise


async def _serve(options: StandaloneOptions, announce: Announce) -> None:
    async with open_standalone(options, limit_shutdown) as server:
        announce(server.addresses, options.output)
        await server.wait()


def print_ready(addresses: StandaloneAddresses, output: str) -> None:
    """Print where it serves, on one line; `output` is that of the options."""
    if output == "json":
        print_serving({**asdict(addresses), "pid": os.getpid()})
        return
    print_line(
        f"ready: service URL {addresses.service_url}, admin URL {addresses.admin_url}, "
        f"metadata {addresses.metadata_url}"
    )


def main(
    arguments: Sequence[str] | None = None,
    program: str = PROGRAM,
    announce: Announce = print_ready,
    make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Run a standalone; return its exit code. Messages call it `program`, and `announce` says that it serves."""
    options = parse_standalone_options(sys.argv[1:] if arguments is None else arguments, program)
    set_up_logging(options.log_format, options.log_level)
    sys.setswitchinterval(0.0005)
    collect_seldom()
    gc.freeze()
    importlib.import_module("numpy")  # the first messages would wait for it
    report_settings(plan_standalone_broker(options, 1, ""))
    try:
        with asyncio.Runner(loop_factory=make_loop or loop_factory()) as runner:
            runner.run(serve(options, announce))
    except (MledgerError, OSError) as error:
        log.error("failed", error=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
