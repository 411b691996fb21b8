"""Which bookies are avoided after failures and silence, and for how long, on a clock of the test."""

import pytest

from mledger.bookie.client.connections.quarantine import Quarantine


class HeardBookies:
    def __init__(self, span=30.0):
        self.now = 1000.0
        self.heard = {}
        self.quarantine = Quarantine(span, lambda: self.now, lambda bookie: self.heard.get(bookie, 0.0))

    def silent_after(self, seconds):
        """Whether bookie `a` still counts as silent so many seconds later."""
        self.now += seconds
        return self.quarantine.silent() == {"a"}


@pytest.fixture
def world():
    return HeardBookies()


def test_a_bookie_that_failed_comes_last_for_a_while(world):
    world.quarantine.note_failure("a", "connection refused")
    assert world.quarantine.healthy_first(["a", "b", "c"]) == ["b", "c", "a"]
    assert not world.quarantine.silent()
    world.now += 31
    assert world.quarantine.healthy_first(["a", "b", "c"]) == ["a", "b", "c"]


def test_a_silent_bookie_comes_after_one_that_failed(world):
    world.quarantine.note_silence("a", "no answer", 10.0)
    world.quarantine.note_failure("b", "connection refused")
    assert world.quarantine.healthy_first(["a", "b", "c"]) == ["c", "b", "a"]


def test_silence_is_remembered_for_longer_than_it_lasted(world):
    world.quarantine.note_silence("a", "no answer", 120.0)
    assert world.silent_after(239)
    assert not world.silent_after(2)


def test_silence_after_silence_doubles_the_quarantine_up_to_half_an_hour(world):
    for span in (30, 60, 120, 240, 480, 960, 1800, 1800):
        world.quarantine.note_silence("a", "no answer", 1.0)
        assert world.silent_after(span - 1)
        assert not world.silent_after(2)


def test_two_time_outs_at_one_moment_count_once(world):
    world.quarantine.note_silence("a", "no answer", 10.0)
    world.now += 0.1
    world.quarantine.note_silence("a", "no answer", 10.0)
    assert not world.silent_after(31)


def test_any_answer_of_a_bookie_ends_its_silence(world):
    world.quarantine.note_silence("a", "no answer", 10.0)
    world.now += 1
    world.heard["a"] = world.now
    assert not world.quarantine.silent()
    assert not world.quarantine.failed()


def test_a_failure_in_between_does_not_shorten_a_silence(world):
    world.quarantine.note_silence("a", "no answer", 120.0)
    world.now += 1
    world.quarantine.note_failure("a", "no connection")
    assert world.silent_after(200)


def test_without_a_time_span_failures_are_forgotten_at_once_but_silence_is_not():
    world = HeardBookies(span=0.0)
    world.quarantine.note_failure("a", "connection refused")
    world.quarantine.note_silence("b", "no answer", 10.0)
    world.now += 1
    assert world.quarantine.failed() == world.quarantine.silent() == {"b"}
