"""Python's cyclic collector beside very many topics: it would look at each of their objects again and again.

Of ten thousand topics with their cursors that is over a million objects: half the time of opening them, and then stalls
of half a second. What a bulk opening leaves is there to stay, so it is put out of the collector's sight.
"""

import contextlib
import gc
from collections.abc import Iterator

MANY = 1000


@contextlib.contextmanager
def lasting_objects(topics: int) -> Iterator[None]:
    """What is made inside is not looked at by the collector, nor what was there before, until `collect_again`.

    Nothing changes for fewer than a thousand `topics`, or where the program has switched the collector off.
    """
    if topics < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def collect_again() -> None:
    """Let the collector see everything again: those topics are closed."""
    if gc.get_freeze_count():
        gc.unfreeze()
