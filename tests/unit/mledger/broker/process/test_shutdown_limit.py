"""A process that does not end by itself is ended."""

import subprocess
import sys

from tests.support.aio import HANG_S

WAITS_FOR_EVER = """
import threading
from mledger.broker.process.shutdown_limit import limit_shutdown
from mledger.metastore.runtime.logs.loggers import TEXT, set_up_logging
set_up_logging(TEXT, "info")
limit_shutdown(0.01)
threading.Event().wait()
"""


def test_a_process_that_waits_for_ever_ends_with_an_error():
    done = subprocess.run([sys.executable, "-c", WAITS_FOR_EVER], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 1
    assert "shutdown_timed_out" in done.stderr


def test_a_process_that_ends_in_time_is_left_alone():
    ends = WAITS_FOR_EVER.replace("0.01", "1000").replace("threading.Event().wait()", "")
    assert subprocess.run([sys.executable, "-c", ends], timeout=HANG_S).returncode == 0
