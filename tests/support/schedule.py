"""The order in which workers take the tests: a file at a time, what takes long first, what shares a server together."""

from collections import OrderedDict

from xdist.scheduler import LoadFileScheduling

TOGETHER = (
    ("tests/interop/test_pulsar_",),
    (
        "tests/integration/mledger/snapshot/exports/test_spark.py",
        "tests/integration/mledger/snapshot/exports/test_spark_driver_killed.py",
        "tests/integration/mledger/snapshot/source/test_spark.py",
        "tests/integration/mledger/snapshot/source/test_spark_guide.py",
    ),
)
"""Files whose names begin so go to one worker: they need the one Pulsar broker, or the one Spark."""
FIRST = (
    "tests/faults/",
    "tests/interop/",
    "tests/integration/mledger/snapshot/",
    "tests/containers/",
    "tests/integration/demo/",
    "tests/field_failures/",
    "tests/integration/",
)
"""What takes long: begun late it would be the only thing that runs in the end."""


def scope_of(nodeid: str) -> str:
    """What goes to one worker with this test."""
    return next((prefixes[0] for prefixes in TOGETHER if nodeid.startswith(prefixes)), nodeid.partition("::")[0])


def rank(scope: str, tests: int) -> tuple[int, int]:
    """Sorts scopes of so many tests: those to begin with first."""
    return next((place for place, prefix in enumerate(FIRST) if scope.startswith(prefix)), len(FIRST)), -tests


class LongestFirst(LoadFileScheduling):
    """`--dist loadfile` by `scope_of` and `rank`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node) -> None:
        self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda item: rank(item[0], len(item[1]))))
        super()._assign_work_unit(node)
