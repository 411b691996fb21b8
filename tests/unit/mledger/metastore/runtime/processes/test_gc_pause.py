"""The garbage collector pauses while many values are made, and does not scan many topics while they are open."""

import gc

import pytest

from mledger.metastore.runtime.processes.gc_pause import (
    FEWEST_COLLECTED,
    MANY_TOPICS,
    collect_again,
    collect_seldom,
    collector_paused,
    lasting_objects,
)


@pytest.fixture(autouse=True)
def everything_seen_again():
    """Leave the collector as it was."""
    yield
    gc.unfreeze()


def test_objects_made_inside_are_not_scanned_until_the_topics_are_closed():
    before = gc.get_freeze_count()
    with lasting_objects(MANY_TOPICS):
        assert not gc.isenabled()
        made = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(made)
    collect_again()
    assert gc.get_freeze_count() == 0


def test_a_few_topics_change_nothing():
    with lasting_objects(MANY_TOPICS - 1):
        assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_collector_that_the_program_switched_off_stays_off():
    gc.disable()
    try:
        with lasting_objects(MANY_TOPICS):
            assert not gc.isenabled()
        assert not gc.isenabled()
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()


def test_a_failed_opening_leaves_the_collector_on():
    with pytest.raises(RuntimeError), lasting_objects(MANY_TOPICS):
        raise RuntimeError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_the_collector_pauses_while_many_values_are_made():
    with collector_paused(10_000):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_while_few_values_are_made():
    with collector_paused(9_999):
        assert gc.isenabled()


def test_a_process_of_its_own_collects_seldom():
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold()[0] == FEWEST_COLLECTED > before[0]
    finally:
        gc.set_threshold(*before)
