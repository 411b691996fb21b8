"""Exports of different machines exclude each other by claims, files that a writer renews."""

import contextlib
import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from mledger.snapshot.exports import writer_claims
from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.errors import ExportBusy, ExportNotWritable
from mledger.snapshot.exports.writer_claims import (
    HOLDING,
    WAITING,
    Claim,
    ExportClaim,
    decode_claims,
    machine_of,
    plan_wait,
    writing_at,
)
from tests.support.forked_python import forked_child

BEAT_S, DEAD_S = 0.02, 1.0


def writer(tmp_path, machine):
    found = ExportClaim(local_place(tmp_path / "_writers"), machine, BEAT_S, DEAD_S)
    found.claim()
    return found


def claims(*found):
    return {claim.writer: claim for claim in found}


def test_the_last_beat_of_a_writer_counts_and_other_names_are_ignored():
    names = ["a.m.4.waiting", "a.m.11.writing", "b.n.0.waiting", "readme.txt", ".a.m.99.writing.tmp"]
    assert decode_claims(names) == claims(Claim("a", "m", 11, HOLDING), Claim("b", "n", 0, WAITING))


@pytest.mark.parametrize(
    ("writer", "before", "now", "withdraws"),
    [
        ("b", Claim("a", "m", 1, HOLDING), Claim("a", "m", 1, HOLDING), None),  # it may be dead
        ("b", Claim("a", "m", 1, HOLDING), Claim("a", "m", 2, HOLDING), "a"),
        ("b", Claim("c", "m", 1, HOLDING), Claim("c", "m", 2, HOLDING), "c"),
        ("b", Claim("a", "m", 1, WAITING), Claim("a", "m", 2, WAITING), "a"),
        ("b", Claim("c", "m", 1, WAITING), Claim("c", "m", 2, WAITING), None),  # it withdraws
        ("b", None, Claim("a", "m", 2, HOLDING), None),  # not yet seen alive
    ],
)
def test_a_writer_withdraws_for_one_that_is_alive_and_writes_or_comes_before_it(writer, before, now, withdraws):
    assert plan_wait(writer, claims(*([before] if before else [])), claims(now)) == withdraws


def test_an_export_of_another_machine_is_refused_while_the_first_one_lives(tmp_path):
    first, second = writer(tmp_path, "one"), None
    first.wait()
    with first.beating():
        second = writer(tmp_path, "two")
        with pytest.raises(ExportBusy, match="on the machine one: wait until it ends"):
            second.wait()
        second.withdraw()
        first.check()
    first.withdraw()
    assert not (tmp_path / "_writers").exists()


def test_a_dead_export_s_claim_is_removed_after_a_while_and_it_notices(tmp_path):
    dead, next_one = writer(tmp_path, "one"), writer(tmp_path, "two")
    next_one.wait()
    next_one.check()
    with pytest.raises(ExportBusy, match="has taken over"):
        dead.check()


class PausedPlace:
    """A place whose next write comes late: before it `pause` seconds pass, in which `meanwhile` is called."""

    def __init__(self, place, monkeypatch):
        self._place = place
        self._slept_s = 0.0
        self.pause_s, self.meanwhile = 0.0, lambda: None
        monkeypatch.setattr(writer_claims, "now_s", lambda: time.monotonic() + self._slept_s)

    def __getattr__(self, name):
        return getattr(self._place, name)

    def sleep(self):
        self._slept_s, self.pause_s = self._slept_s + self.pause_s, 0.0
        self.meanwhile()

    def write(self, name, data):
        self.sleep()
        self._place.write(name, data)


@pytest.fixture
def paused(tmp_path, monkeypatch):
    return PausedPlace(local_place(tmp_path / "_writers"), monkeypatch)


def holding(place):
    found = ExportClaim(place, "one", BEAT_S, DEAD_S)
    found.claim()
    found.wait()
    return found


def names_of(place):
    return [claim.state for claim in decode_claims(place.names()).values()]


def remove_all(place):
    for name in place.names():
        place.remove_file(name)


def test_a_beat_that_is_written_after_a_pause_brings_no_claim_back_that_was_removed(paused):
    mine = holding(paused)
    paused.pause_s, paused.meanwhile = DEAD_S, lambda: remove_all(paused)
    assert not mine._beat(HOLDING)
    assert names_of(paused) == []
    paused.meanwhile = lambda: None
    with pytest.raises(ExportBusy, match="has taken over"):
        mine.check()
    assert names_of(paused) == []


def test_an_export_that_was_paused_and_that_nobody_took_for_dead_goes_on(paused):
    mine = holding(paused)
    paused.pause_s = DEAD_S
    paused.sleep()
    mine.check()
    assert names_of(paused) == [HOLDING]
    mine.check()


def test_a_claim_that_is_removed_while_its_writer_claims_anew_is_lost(paused):
    mine = holding(paused)
    paused.pause_s = DEAD_S
    paused.sleep()
    paused.meanwhile = lambda: remove_all(paused)
    with pytest.raises(ExportBusy, match="has taken over"):
        mine.check()


def test_an_export_that_is_paused_before_it_holds_does_not(paused):
    mine = ExportClaim(paused, "one", BEAT_S, DEAD_S)
    mine.claim()
    paused.pause_s = DEAD_S
    with pytest.raises(ExportBusy, match="did not renew its claim for 1 s"):
        mine.wait()


def test_a_dead_export_of_the_same_machine_is_not_waited_for(tmp_path):
    writer(tmp_path, "one")
    ExportClaim(local_place(tmp_path / "_writers"), "one", BEAT_S, dead_s=1e9).wait()


def test_containers_that_share_a_machine_s_name_are_told_apart_by_their_lock_files(tmp_path):
    """With `--network host` they have the machine's name; the path of the lock is the same, the file is not."""
    lock = tmp_path / "lock"
    lock.touch()
    ours = machine_of(lock)
    assert machine_of(lock) == ours
    lock.rename(tmp_path / "in-another-container")
    lock.touch()
    assert machine_of(lock) != ours


def test_a_cache_that_cannot_be_written_is_named_with_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    bucket = replace(local_place(tmp_path), local=None, text="s3://bucket/metadata")
    with (
        pytest.raises(ExportNotWritable, match=r"^/proc/nowhere/.*s3://bucket/metadata.* set XDG_CACHE_HOME"),
        writing_at(bucket),
    ):
        pass


def test_a_file_system_without_locks_is_named_with_what_to_do(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(ExportNotWritable, match="cannot be locked: Function not implemented; name another directory"),
        writing_at(local_place(tmp_path)),
    ):
        pass


def test_of_many_that_start_at_once_at_most_one_writes(tmp_path):
    def attempt(number):
        mine = writer(tmp_path, f"machine-{number}")
        with suppress(ExportBusy):
            mine.wait()
            return mine
        mine.withdraw()
        return None

    with ThreadPoolExecutor(6) as threads:
        writing = [each for each in threads.map(attempt, range(6)) if each is not None]
    alive = []
    for each in writing:
        with suppress(ExportBusy):
            each.check()
            alive.append(each)
    assert len(alive) <= 1


def test_a_process_forked_during_an_export_does_not_keep_its_lock(tmp_path):
    with contextlib.ExitStack() as stack:
        with writing_at(local_place(tmp_path)):
            stack.enter_context(forked_child())
        with writing_at(local_place(tmp_path)):
            pass
