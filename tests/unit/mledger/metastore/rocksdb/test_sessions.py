"""When sessions of a metadata server end, and which processes have ended."""

import os
import socket
import subprocess
import sys

import pytest
from msgspec import structs

from mledger.metastore.rocksdb.peer import PeerProcess, end_of, is_gone, process_of
from mledger.metastore.rocksdb.sessions import SHORTEST_S, STALL_S, Sessions, ids_from


def test_a_session_ends_after_a_silence_of_its_time_out():
    sessions = Sessions()
    short, long = sessions.begin(1.0, 100.0), sessions.begin(10.0, 100.0)
    assert sessions.next_deadline() == 101.0
    assert sessions.plan_expired(100.5, 100.5) == []
    assert sessions.plan_expired(101.0, 101.0) == [short]
    short.heard(101.0)
    assert sessions.plan_expired(101.5, 101.5) == []
    assert sessions.plan_expired(110.0, 110.0) == [short, long]


def test_time_in_which_the_server_was_stopped_does_not_count():
    sessions = Sessions()
    session = sessions.begin(1.0, 100.0)
    assert sessions.plan_expired(101.0, 200.0) == []
    assert session.deadline > 200.0
    assert sessions.plan_expired(session.deadline, session.deadline + STALL_S / 2) == [session]


def test_a_silent_session_ends_though_every_check_comes_late():
    sessions = Sessions()
    session, now = sessions.begin(4.0, 100.0), 100.0
    while sessions.plan_expired(planned := max(session.deadline, now), now := planned + 1.5 * STALL_S) == []:
        assert now < 100.0 + 3 * session.timeout_s


def test_a_session_that_is_heard_in_between_outlives_any_number_of_stalls():
    sessions = Sessions()
    session = sessions.begin(4.0, 100.0)
    for _ in range(100):
        now = session.deadline + 60.0
        assert sessions.plan_expired(session.deadline, now) == []
        session.heard(now)


def test_ids_rise_past_the_restored_ones():
    sessions = Sessions()
    sessions.restore(7, 1.0, 0.0)
    sessions.remove(sessions.begin(1.0, 0.0))
    assert sessions.begin(0.0, 0.0).session_id == 9
    assert sessions.get(8) is None
    assert sessions.get(9).timeout_s == SHORTEST_S
    assert [session.session_id for session in sessions] == [7, 9]


def test_ids_of_a_server_that_starts_later_are_higher_though_it_knows_none_of_the_former_ones():
    former = Sessions(ids_from(1_790_000_000.0))
    ids = [former.begin(1.0, 0.0).session_id for _ in range(1000)]
    assert Sessions(ids_from(1_790_000_000.001)).begin(1.0, 0.0).session_id > max(ids)


def test_ids_stay_above_the_assigned_ones_when_the_clock_was_set_back():
    sessions = Sessions(ids_from(1000.0))
    sessions.assigned(ids_from(2000.0) + 5)
    assert sessions.begin(1.0, 0.0).session_id == ids_from(2000.0) + 6


@pytest.fixture
def ourselves():
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        process = process_of(one)
    assert process is not None
    return process


def test_a_living_process_has_not_ended(ourselves):
    assert ourselves.pid == os.getpid()
    assert not is_gone(ourselves)


@pytest.mark.parametrize(
    ("change", "gone"),
    [({"started": 1}, True), ({"boot_id": "another"}, True), ({"pid_namespace": "pid:[1]", "started": 1}, False)],
)
def test_only_a_certain_end_counts(ourselves, change, gone):
    assert is_gone(structs.replace(ourselves, **change)) is gone


def test_a_dead_process_has_ended_even_before_its_parent_has_waited(ourselves):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with open(f"/proc/{child.pid}/stat") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19])
    process = PeerProcess(child.pid, started, ourselves.boot_id, ourselves.pid_namespace)
    assert not is_gone(process)
    os.close(end_of(process))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(process)
    assert end_of(process) is None
    child.communicate()
    assert is_gone(process)


def test_a_connection_without_a_process_belongs_to_none():
    with socket.socket() as tcp:
        assert process_of(tcp) is None
