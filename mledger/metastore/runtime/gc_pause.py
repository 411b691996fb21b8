"""Python's cyclic collector beside very many small values: it looks at all that were made so far, again and again.

Of the three million tuples of a million ranges that is three quarters of the time it takes to make them.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused(values: int, many: int = 10_000) -> Iterator[None]:
    """While `many` values or more are made that are in no cycle, the collector does not run; in one thread, no await.

    Nothing changes for fewer, or where the program has switched the collector off.
    """
    if values < many or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
