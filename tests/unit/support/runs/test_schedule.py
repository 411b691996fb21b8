"""What one worker of a test run takes together, and what comes first."""

import re
from collections import OrderedDict
from pathlib import Path

from tests.support.runs.schedule import LongestFirst, rank, scope_of

ROOT = Path(__file__).resolve().parents[4]
NEEDS_SPARK = re.compile("^from tests.support.snapshots.spark import spark$", re.MULTILINE)


def test_a_file_goes_to_one_worker():
    assert scope_of("tests/unit/house/test_site.py::test_one[a::b]") == "tests/unit/house/test_site.py"


def test_groups_of_simulated_schedules_go_to_any_worker():
    scopes = {scope_of(f"tests/sim/test_schedules.py::test_one[{group}]") for group in range(3)}
    assert len(scopes) == 3
    assert all(rank(scope, 1) < rank("tests/unit/b.py", 30) for scope in scopes)


def test_files_that_need_the_pulsar_broker_go_to_one_worker():
    files = ("tests/interop/pulsar/test_pulsar_owner.py", "tests/interop/pulsar/test_pulsar_broker.py")
    assert len({scope_of(f"{file}::test_one") for file in files}) == 1


def test_files_that_need_a_spark_go_to_one_worker_among_the_first():
    needing = {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("tests/**/test_*.py") if NEEDS_SPARK.search(path.read_text())
    }
    assert len(needing) > 1
    (scope,) = {scope_of(f"{file}::test_one") for file in needing}
    assert rank(scope, 1) < rank("tests/integration/test_other.py", 1)


def test_long_suites_come_first_and_then_the_files_with_more_tests():
    scopes = {"tests/unit/a.py": 3, "tests/unit/b.py": 30, "tests/faults/test_x.py": 1, "tests/interop/test_y.py": 2}
    ordered = sorted(scopes, key=lambda scope: rank(scope, scopes[scope]))
    assert ordered == ["tests/faults/test_x.py", "tests/interop/test_y.py", "tests/unit/b.py", "tests/unit/a.py"]


class EndedWorker:
    """A worker whose end the run has yet to notice."""

    shutting_down = False

    def send_runtest_some(self, indexes):
        raise OSError("cannot send (already closed?)")


def test_what_a_worker_that_has_just_ended_was_to_take_goes_to_others():
    worker, tests = EndedWorker(), ["a.py::test_one", "a.py::test_two"]
    schedule = object.__new__(LongestFirst)
    schedule.workqueue = OrderedDict({"a.py": dict.fromkeys(tests, False)})
    schedule.assigned_work = OrderedDict()
    schedule.registered_collections = {worker: tests}
    schedule._assign_work_unit(worker)
    assert not schedule.workqueue
    schedule.remove_node(worker)
    assert list(schedule.workqueue) == ["a.py"]
