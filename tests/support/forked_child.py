"""A process forked from the test's own, as a program's worker that outlives what it was forked beside."""

import contextlib
import os
import signal


@contextlib.contextmanager
def forked_child():
    """Fork a process that does nothing until the end of the block, and wait until it runs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, b".")
            signal.pause()
        finally:
            os._exit(0)
    try:
        os.close(writing)
        os.read(reading, 1)
        yield
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
