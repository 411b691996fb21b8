"""Fixes taken out again, in memory, by name: the simulator must find each of these defects."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes import bookie_fixes, client_fixes, topic_fixes
from tests.sim.removed_fixes.patches import Patches
from tests.sim.schedule import Schedule
from tests.sim.simulation import simulate


class RemovedFix(NamedTuple):
    """A fix that can be taken out."""

    name: str
    defect: str
    """What went wrong without it."""
    take_out: Callable[[Patches], None]
    may_show: Callable[[Schedule], bool]
    """Whether a schedule has what the defect needs; others are counted as searched without being run."""


def _all() -> dict[str, RemovedFix]:
    found = {}
    for module in (bookie_fixes, client_fixes, topic_fixes):
        for name, defect, take_out, may_show in module.FIXES:
            found[name] = RemovedFix(name, defect, take_out, may_show)
    return found


FIXES = _all()


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Run the product without one fix. KeyError for a name that is not known."""
    fix = FIXES[name]
    patches = Patches()
    try:
        fix.take_out(patches)
        yield
    finally:
        patches.undo()


def without_any(name: str | None) -> contextlib.AbstractContextManager[Any]:
    """As `without`; nothing is taken out if there is no name."""
    return without(name) if name else contextlib.nullcontext()


class Missed(NamedTuple):
    """A seed that finds a defect whose fix is taken out: what it violates without the fix, and with it (nothing)."""

    seed: str
    violation: str
    whole: str


def find(name: str, first: Iterable[str], most: int) -> Missed | None:
    """Run the seeds `first`, then up to `most` others, without a fix, until one finds its defect.

    A change of the product changes what happens in a schedule; a recorded seed may find nothing then.
    """
    may_show = FIXES[name].may_show
    others = (str(seed) for seed in itertools.count() if may_show(plan_schedule(str(seed))))
    for seed in itertools.chain(first, itertools.islice(others, most)):
        schedule = plan_schedule(seed)
        with without(name):
            violation = simulate(schedule).violation
        if violation:
            return Missed(seed, violation, simulate(schedule).violation)
    return None
