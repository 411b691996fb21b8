"""What ends a command that starts or stops processes: SIGTERM and SIGHUP, as Ctrl-C does."""

import contextlib
import signal
import threading
from collections.abc import Iterator

ENDS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interrupted_by_termination() -> Iterator[None]:
    """Have these signals raise KeyboardInterrupt in the block, so that it leaves no process behind.

    A signal that is ignored or handled stays so: `nohup` works. Other threads than the main one cannot have it.
    """
    ours = threading.current_thread() is threading.main_thread()
    replaced = [each for each in ENDS if ours and signal.getsignal(each) is signal.SIG_DFL]
    for each in replaced:
        signal.signal(each, signal.default_int_handler)
    try:
        yield
    finally:
        for each in replaced:
            signal.signal(each, signal.SIG_DFL)
