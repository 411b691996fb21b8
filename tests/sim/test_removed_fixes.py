"""The simulator finds each defect that was mended once, when its fix is taken out again.

A row of FOUND has what is violated then, and the first seeds that found it. Where a change of the product has made all
of them miss it, others are tried. To find the first one: `python -m tests.sim --without NAME --schedules 20000`.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.sim.__main__ import HASH_SEED
from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes.catalogue import FIXES
from tests.sim.removed_fixes.patches import Patches
from tests.support.commands.documents import text_of

MOST_SCHEDULES = 20_000
MOST_RUNS = 400
LOST = "has lost entry|cannot be read|entry \\d+ was acknowledged"
UNRECORDED = "of the bookies that the metadata names"
FOUND = {
    "C1": ("TRIMMED_EARLY", "125", "193", "827", "1141"),
    "C2": ("was fenced by nobody|TRIMMED_EARLY", "674", "1778", "2391", "2460"),
    "C6": ("passes the limit", "14", "33", "46", "74"),
    "C7": ("passes the limit", "14", "127", "132", "141"),
    "C12": ("are not recovered and durable", "6", "219", "314"),
    "S1": (LOST, "3", "50", "99", "134"),
    "S2": (LOST, "5955", "10036", "15222", "15795"),
    "S3": ("requests of .* did not end", "23", "394", "418", "455"),
    "S4": (LOST, "12", "1102", "1322"),
    "S5": ("ended by itself: OSError", "114", "393", "458"),
    "S6": ("its index names what its journal does not hold", "257", "310", "318", "521"),
    "S7": ("a reader of ledger .* that is open cannot read it", "124", "309", "480", "618"),
    "S8": (f"{LOST}|CorruptJournal|counts live bytes wrongly|writes are stopped", "128", "287", "373"),
    "S9": ("ended by itself: DiskFull", "85", "231", "625", "699"),
    "S10": ("counts live bytes wrongly", "0", "61", "96", "98"),
    "S11": ("keeps too many ledgers in memory", "458", "570", "750", "781"),
    "answer-before-sync": ("was acknowledged, and durable on", "1", "3", "4", "5"),
    "bookkeeper-1591": (UNRECORDED, "0", "25", "43", "55"),
    "bookkeeper-2614": ("was acknowledged by a fenced writer", "2381", "2825", "4270", "4739"),
    "bookkeeper-2615": ("an ensemble from entry .* cannot follow", "1843", "5995", "7101"),
    "early-fence": ("closed at .*was acknowledged", "519", "686", "824", "1103"),
    "lost-disk": (LOST, "797", "1041", "1333", "1453"),
    "unwritten-reset": ("ACK_MADE_UP|TRIMMED_EARLY", "2426", "2843", "3118", "3836"),
    "unrecorded-ensemble": (UNRECORDED, "0", "8", "25", "28"),
}


_FIND = """
import json, sys
from tests.sim.removed_fixes.catalogue import find
name, most, *seeds = sys.argv[1:]
print(json.dumps(find(name, seeds, int(most))))
"""


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_fix_that_is_taken_out_is_missed(name):
    violation, *seeds = FOUND[name]
    command = [sys.executable, "-c", _FIND, name, str(MOST_RUNS), *seeds]
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    assert found is not None
    _, broken, whole = found
    assert re.search(violation, broken)
    assert whole == ""


@pytest.mark.parametrize("name", sorted(FOUND))
def test_the_command_that_searches_reaches_the_recorded_seeds(name):
    _, *seeds = FOUND[name]
    assert all(FIXES[name].may_show(plan_schedule(seed)) and int(seed) < MOST_SCHEDULES for seed in seeds)


def test_the_seed_that_the_simulator_page_replays_finds_the_defect():
    shown = re.search(r"--without (\S+) --seed (\d+)", text_of("explanation/simulation.md"))
    assert shown is not None
    assert shown[2] in FOUND[shown[1]]


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
