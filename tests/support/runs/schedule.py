"""The order in which workers take the tests: file by file, long ones first, and those that share a server together."""

import contextlib
from collections import OrderedDict

from xdist.scheduler import LoadFileScheduling

TOGETHER = (
    ("tests/interop/pulsar/test_pulsar_",),
    ("tests/interop/test_java_", "tests/interop/test_operators_table.py"),
    (
        "tests/integration/mledger/snapshot/exports/test_directory.py",
        "tests/integration/mledger/snapshot/exports/spark/test_spark_exporter.py",
        "tests/integration/mledger/snapshot/exports/spark/test_spark_exporter_driver_killed.py",
        "tests/integration/mledger/snapshot/exports/spark/test_splits.py",
        "tests/integration/mledger/snapshot/source/test_spark.py",
        "tests/integration/mledger/snapshot/source/test_spark_guide.py",
        "tests/integration/mledger/snapshot/source/test_spark_stream.py",
    ),
)
"""Files with these prefixes go to one worker, because they share one Pulsar broker, Java's clients, or one Spark."""
APART = ("tests/sim/test_schedules.py",)
"""Files whose tests share nothing and take long each: every test goes to whichever worker is free."""
FIRST = (
    "tests/clients/",
    "tests/faults/",
    "tests/interop/",
    "tests/integration/mledger/snapshot/",
    "tests/containers/",
    "tests/sim/",
    "tests/integration/demo/",
    "tests/field_failures/",
    "tests/integration/",
)
"""What takes long: begun late, it would run alone at the end."""


def scope_of(nodeid: str) -> str:
    """The scope of a test: one worker takes all tests of a scope."""
    if nodeid.startswith(APART):
        return nodeid
    return next((prefixes[0] for prefixes in TOGETHER if nodeid.startswith(prefixes)), nodeid.partition("::")[0])


def rank(scope: str, tests: int) -> tuple[int, int]:
    """The sort key of a scope with so many tests: what to begin with comes first."""
    return next((place for place, prefix in enumerate(FIRST) if scope.startswith(prefix)), len(FIRST)), -tests


class LongestFirst(LoadFileScheduling):
    """`--dist loadfile` with `scope_of` and `rank`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def remove_node(self, node) -> str | None:
        """Take back what a worker that has ended left undone. Returns the test that ended it, which is not run again.

        The scheduler that this one extends takes back finished scopes as well. A worker that is given one of them
        has nothing to run, never reports, and the run stands still.
        """
        left = {scope: tests for scope, tests in self.assigned_work.pop(node).items() if not all(tests.values())}
        if not left:
            return None
        running = next(iter(left.values()))
        ended_by = next(test for test, completed in running.items() if not completed)
        running[ended_by] = True
        self.workqueue.update({scope: tests for scope, tests in left.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return ended_by

    def _reschedule(self, node) -> None:
        """Give a worker what is left, until it has two tests or is told that nothing follows.

        A worker begins a test only when it knows what comes next. The scheduler that this one extends gives a worker
        that came for one that ended a single scope: if that holds a single test, the run stands still.
        """
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _assign_work_unit(self, node) -> None:
        """Give a worker the next scope. One that has just ended cannot take it: `remove_node` takes it back."""
        self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda item: rank(item[0], len(item[1]))))
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)
