"""Which turns a bookie writes on the loop, and which on the journal's thread."""

import threading
import time
from types import SimpleNamespace

import pytest

from mledger.bookie.server.storage import journal_thread
from mledger.bookie.server.storage.journal import FRAMES
from mledger.bookie.server.storage.loop_writes import QUICK_S, SMALL_ADDS, SMALL_BYTES, LoopWrites


class TimedJournal:
    """A journal that notes the threads that write it; each write takes `took` seconds, by its own figures."""

    def __init__(self):
        self.write_s = self.sync_s = 0.0
        self.took, self.full, self.error = QUICK_S / 2, False, None
        self.writers, self.recycled = [], threading.Event()

    def holds(self, length):
        return not self.full

    def append(self, sequence, kind, chunks):
        if self.error is not None:
            raise self.error
        self.writers.append(threading.current_thread())
        self.write_s, self.sync_s = 0.0, self.took
        return sequence

    def recycle(self, number):
        self.recycled.wait()


class TurnsWritten:
    """The writes under test, on this thread as the loop, by a clock that a test sets."""

    def __init__(self):
        self.now = 100.0
        self.journal = TimedJournal()
        self.places, self._synced = [], threading.Semaphore(0)
        self.thread = LoopWrites(self.journal, self._note, lambda: self.now)
        self.thread.start()

    def _note(self, place):
        self.places.append(place)
        self._synced.release()

    def write(self, adds=1, size=100):
        """Write a turn, and wait for it; whether it was written on the loop."""
        turn = SimpleNamespace(kind=FRAMES, chunks=[bytes(1)], size=size, adds=adds)
        self.thread.submit(len(self.places) + 1, turn)
        self._synced.acquire()
        while not self.thread.idle:  # it has written, and is about to say so
            time.sleep(0)
        return self.journal.writers[-1] is threading.current_thread()


@pytest.fixture
def writes():
    made = TurnsWritten()
    yield made
    made.journal.recycled.set()
    made.thread.stop()


def test_a_small_turn_is_written_at_once(writes):
    assert writes.write()
    assert writes.places == [1]


def test_a_turn_with_many_adds_or_bytes_is_left_to_the_thread(writes):
    assert not writes.write(adds=SMALL_ADDS + 1)
    assert not writes.write(size=SMALL_BYTES + 1)
    assert writes.write()


def test_after_a_slow_write_the_thread_writes_for_twenty_times_as_long(writes):
    writes.journal.took = 0.5
    assert writes.write()
    writes.journal.took = QUICK_S / 2
    assert not writes.write()
    writes.now += 9.9
    assert not writes.write()
    writes.now += 0.2
    assert writes.write()


def test_the_thread_goes_on_while_its_writes_are_slow(writes):
    writes.journal.took = 0.5
    writes.write()
    for _ in range(3):
        writes.now += 60.0
        assert not writes.write()


def test_the_thread_begins_the_next_file(writes):
    writes.journal.full = True
    assert not writes.write()


def test_a_turn_waits_for_what_the_thread_does_to_the_journal(writes):
    """Both move the journal's files."""
    writes.thread.recycle([1])
    turn = SimpleNamespace(kind=FRAMES, chunks=[bytes(1)], size=100, adds=1)
    writes.thread.submit(1, turn)
    assert writes.places == []
    writes.journal.recycled.set()
    assert writes._synced.acquire(timeout=60)


def test_a_failed_write_on_the_loop_ends_the_process(writes, monkeypatch):
    class Ended(BaseException):
        pass

    def end(event, error):
        raise Ended(event, error)

    monkeypatch.setattr(journal_thread, "end_process", end)
    writes.journal.error = OSError(5, "Input/output error")
    with pytest.raises(Ended, match="journal_failed"):
        writes.write()
