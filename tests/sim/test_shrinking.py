"""A failing schedule is shortened to the steps that make it fail."""

from tests.sim.schedule import Schedule, Step
from tests.sim.shrinking import shrink


def _schedule(count: int) -> Schedule:
    steps = tuple(Step(number / 10, "bookie-a", "kill", number) for number in range(count))
    return Schedule("seed", (3, 2, 2), 4, steps)


def test_only_the_steps_that_matter_stay():
    wanted = {3, 17}
    found = shrink(_schedule(30), lambda schedule: wanted <= {step.number for step in schedule.steps})
    assert {step.number for step in found.steps} == wanted


def test_no_more_simulations_are_run_than_allowed():
    runs = 0

    def fails(schedule: Schedule) -> bool:
        nonlocal runs
        runs += 1
        return False

    shrink(_schedule(30), fails, tries=7)
    assert runs == 7
