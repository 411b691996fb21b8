"""The simulator finds each defect that was mended once, when its fix is taken out again.

A row of FOUND has the first seed that finds it, and what is violated then. To find it anew:
`python -m tests.sim --without NAME --schedules 20000 --processes 1`.
"""

import os
import subprocess
import sys

import pytest

from tests.sim.__main__ import HASH_SEED
from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes.catalogue import FIXES
from tests.sim.removed_fixes.patches import Patches

MOST_SCHEDULES = 20_000
UNRECORDED = "of the bookies that the metadata names"
FOUND = {
    "C1": ("125", "TRIMMED_EARLY"),
    "C2": ("674", "owner-0 was fenced by nobody"),
    "C6": ("14", "passes the limit"),
    "C7": ("14", "passes the limit"),
    "C12": ("6", "are not recovered and durable"),
    "S1": ("3", "which it had made durable"),
    "S2": ("1974", "which it had made durable"),
    "S3": ("23", "requests of writer-0 did not end"),
    "S4": ("12", "ledger 4: closed at 0, entry 1 was acknowledged"),
    "S5": ("114", "bookie-a ended by itself: OSError"),
    "S6": ("180", "its index names what its journal does not hold"),
    "S7": ("124", "a reader of ledger 0 that is open cannot read it"),
    "S8": ("128", "which it had made durable"),
    "S9": ("85", "bookie-a ended by itself: DiskFull"),
    "S10": ("0", "counts live bytes wrongly"),
    "S11": ("458", "keeps too many ledgers in memory"),
    "answer-before-sync": ("1", "was acknowledged, and durable on [] only"),
    "bookkeeper-1591": ("0", UNRECORDED),
    "bookkeeper-2614": ("2825", "was acknowledged by a fenced writer"),
    "bookkeeper-2615": ("1843", "cannot be read: an ensemble from entry 21 on cannot follow"),
    "early-fence": ("16", "ledger 0: closed at 8, entry 9 was acknowledged"),
    "unrecorded-ensemble": ("0", UNRECORDED),
}


_BOTH = """
import sys
from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes.catalogue import without
from tests.sim.simulation import simulate
name, seed = sys.argv[1:]
with without(name):
    print("without:", simulate(plan_schedule(seed)).violation)
print("with:", simulate(plan_schedule(seed)).violation)
"""


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_fix_that_is_taken_out_is_missed(name):
    seed, violation = FOUND[name]
    assert int(seed) < MOST_SCHEDULES
    command, environment = [sys.executable, "-c", _BOTH, name, seed], {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    broken, _, whole = done.stdout.rpartition("with:")
    assert violation in broken
    assert whole.strip() == ""


@pytest.mark.parametrize("name", sorted(FOUND))
def test_the_command_that_searches_reaches_the_recorded_seed(name):
    assert FIXES[name].may_show(plan_schedule(FOUND[name][0]))


def test_every_fix_has_a_seed_that_finds_it():
    assert sorted(FOUND) == sorted(FIXES)


@pytest.mark.parametrize("name", sorted(FIXES))
def test_a_fix_that_was_taken_out_is_put_back(name):
    patches = Patches()
    FIXES[name].take_out(patches)
    replaced = [(where, attribute, before) for where, attribute, before in patches.before]
    patches.undo()
    assert replaced
    assert all(vars(where)[attribute] is before for where, attribute, before in replaced)
