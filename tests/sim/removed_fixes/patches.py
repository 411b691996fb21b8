"""Replaces functions and methods of the product for a while."""

from collections.abc import Callable
from typing import Any

from tests.sim.schedule import Schedule

Fix = tuple[str, str, Callable[["Patches"], None], Callable[[Schedule], bool]]
"""Name, defect, what takes it out, and which schedules may show it."""


class Patches:
    """What was replaced, and how to put it back."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, str, Any]] = []

    def put(self, where: Any, name: str, value: Any) -> Any:
        """Replace an attribute that exists; returns what it was."""
        before = where.__dict__[name]
        self.before.append((where, name, before))
        setattr(where, name, value)
        return before

    def undo(self) -> None:
        """Put everything back."""
        while self.before:
            setattr(*self.before.pop())


def anything(_: Schedule) -> bool:
    """Any schedule may show it."""
    return True


def of_ledgers(schedule: Schedule) -> bool:
    """Schedules with writers of ledgers."""
    return not schedule.topics


def of_topics(schedule: Schedule) -> bool:
    """Schedules with owners of a topic."""
    return schedule.topics


def small(schedule: Schedule) -> bool:
    """Schedules of bookies that keep few ledgers in memory, and collect garbage often in some."""
    return schedule.limits.most_ledgers == 1


def with_step(*whats: str) -> Callable[[Schedule], bool]:
    """Schedules with one of these steps."""
    return lambda schedule: any(step.what in whats for step in schedule.steps)


def with_all(*conditions: Callable[[Schedule], bool]) -> Callable[[Schedule], bool]:
    """Schedules that meet every condition."""
    return lambda schedule: all(condition(schedule) for condition in conditions)
