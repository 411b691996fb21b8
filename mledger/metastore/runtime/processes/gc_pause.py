"""Python's cyclic garbage collector beside very many objects: it would look at each of them again and again.

Of the three million tuples of a million ranges that is three quarters of the time it takes to make them. Ten thousand
topics with their cursors are over a million objects: half the time of opening them, and then stalls of half a second.
What a bulk opening leaves is there to stay, so it is put out of the collector's sight.
"""

import contextlib
import gc
from collections.abc import Iterator

MANY_TOPICS = 1000
FEWEST_COLLECTED = 50_000


def collect_seldom() -> None:
    """Have the collector look for cycles after so many new objects, not after 700: most objects here are in none.

    For processes of their own: the setting counts for the whole program.
    """
    gc.set_threshold(FEWEST_COLLECTED)


@contextlib.contextmanager
def imports_uncollected() -> Iterator[None]:
    """While a server's modules are imported, the collector does not run: they leave no garbage, and many objects.

    Without it the start takes a quarter longer.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def collector_paused(values: int, many: int = 10_000) -> Iterator[None]:
    """While `many` values or more are made that are in no cycle, the collector does not run.

    Nothing changes for fewer, or where the program has switched the collector off. Of pauses that overlap, the first
    to end lets it run again.
    """
    if values < many or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def lasting_objects(topics: int) -> Iterator[None]:
    """What is made inside is not looked at by the collector, nor what was there before, until `collect_again`.

    Nothing changes for fewer than a thousand `topics`, or where the program has switched the collector off.
    """
    if topics < MANY_TOPICS or not gc.isenabled():
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
