"""Finds a shorter schedule that still fails: steps are left out as long as the violation stays."""

from collections.abc import Callable
from dataclasses import replace

from tests.sim.schedule import Schedule

Fails = Callable[[Schedule], bool]


def shrink(schedule: Schedule, fails: Fails, tries: int = 400) -> Schedule:
    """A schedule with as few steps as `tries` simulations find; `schedule` itself must fail."""
    size = max(1, len(schedule.steps) // 2)
    while size and tries > 0:
        at, shorter = 0, False
        while at < len(schedule.steps) and tries > 0:
            candidate = replace(schedule, steps=schedule.steps[:at] + schedule.steps[at + size :])
            tries -= 1
            if candidate.steps and fails(candidate):
                schedule, shorter = candidate, True
            else:
                at += size
        if not shorter or size > len(schedule.steps):
            size //= 2
    return schedule
