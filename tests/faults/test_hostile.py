"""Every fault of the soak once, each alone under load, with short time-outs (M5, M7, Q2, Q5, C3, C8, R10)."""

import pytest

from tests.faults.soak.fault_targets import SHORT
from tests.faults.soak.hostile import FAULTS, disk_full, run_hostile, storage_events


@pytest.mark.timeout(1800)
def test_no_fault_loses_repeats_or_orphans_anything(tmp_path):
    done = run_hostile(tmp_path, rounds=1, seed=4, pace=SHORT)
    wanted = {fault.__name__ for fault in FAULTS}
    if done.left_out:
        wanted.remove(disk_full.__name__)
    assert set(done.faults) == wanted
    assert done.saw["bytes of stored entries changed under a running bookie"] > 0
    if done.left_out:
        pytest.skip("; ".join(done.left_out))


def test_what_a_bookie_did_to_its_files_is_shown_of_its_log():
    lines = [
        "time=1 level=info logger=a event=storage_open seconds=0.04 next_sequence=1",
        "time=2 level=info logger=a event=registered bookie=b read_only=false",
        "time=3 level=info logger=a event=journal_file_emptied file=3 runs=2 of=2",
        "time=4 level=error logger=a event=journal_file_damaged file=4 needed_bytes=7",
    ]
    assert storage_events("\n".join(lines)).splitlines() == [lines[0], *lines[2:]]
