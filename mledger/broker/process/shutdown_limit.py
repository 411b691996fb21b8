"""Ends a process that does not come to its orderly end in time, whatever it waits for."""

import os
import sys
import threading

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

EXIT_CODE = 1


def limit_shutdown(seconds: float) -> None:
    """End this process in `seconds` seconds if it is still there then.

    What was acknowledged is durable by then, and what the process owns goes with its session: to whoever takes over, it
    has crashed.
    """
    timer = threading.Timer(seconds, _end, [seconds])
    timer.daemon = True
    timer.start()


def _end(seconds: float) -> None:
    log.error("shutdown_timed_out", seconds=seconds, hint="topics are recovered by their next owners")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)
