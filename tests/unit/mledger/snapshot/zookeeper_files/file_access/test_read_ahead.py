"""A remote file is fetched in blocks by a thread, in bounded memory, and gives the same bytes as the file itself."""

import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.zookeeper_files.file_access import read_ahead
from mledger.snapshot.zookeeper_files.file_access.read_ahead import BLOCK, BLOCKS_AHEAD, FetchedFile

STEPS = st.lists(
    st.tuples(st.just("read"), st.integers(1, 40))
    | st.tuples(st.just("seek"), st.integers(0, 120))
    | st.tuples(st.just("back"), st.integers(0, 100))
)


class Recording(io.BytesIO):
    """Remembers who read how much; `told` is released after each read."""

    def __init__(self, data, fail_at=None):
        super().__init__(data)
        self.reads = []
        self.told = threading.Semaphore(0)
        self.fail_at = fail_at

    def read(self, size=-1):
        self.reads.append((threading.current_thread().name, size))
        try:
            if len(self.reads) == self.fail_at:
                raise OSError("the connection was lost")
            return super().read(size)
        finally:
            self.told.release()

    def wait(self, count):
        for _ in range(count):
            assert self.told.acquire(timeout=10)


@given(st.binary(max_size=100), STEPS)
def test_reads_and_seeks_give_the_bytes_of_the_file(data, steps):
    with pytest.MonkeyPatch.context() as patch, FetchedFile(io.BytesIO(data)) as file:
        patch.setattr(read_ahead, "BLOCK", 7)
        at = 0
        for step, number in steps:
            if step == "read":
                found = file.read(number)
                assert found == data[at : at + len(found)]
                assert bool(found) == (at < len(data))
                at += len(found)
            elif step == "seek":
                at = file.seek(number)
            else:
                at = file.seek(-min(number, len(data)), os.SEEK_END)
            assert file.tell() == at
        file.seek(0)
        assert file.read() == data


def test_the_next_blocks_are_fetched_while_the_caller_works_and_no_more_than_those():
    inner = Recording(bytes(20 * BLOCK))
    with FetchedFile(inner) as file:
        file.read(10)
        file.read(10)
        inner.wait(2 + BLOCKS_AHEAD)
        assert [size for _, size in inner.reads] == [10] + [BLOCK] * (1 + BLOCKS_AHEAD)
        assert {name for name, _ in inner.reads[1:]} == {"read-ahead_0"}
        assert len(file.read(BLOCK)) == BLOCK - 10
        assert len(inner.reads) == 2 + BLOCKS_AHEAD


def test_a_look_at_head_or_end_fetches_nothing_else():
    inner = Recording(bytes(20 * BLOCK))
    with FetchedFile(inner) as file:
        file.read(100)
        file.seek(-128, os.SEEK_END)
        file.read()
    assert [size for _, size in inner.reads] == [100, -1]


def test_an_error_of_a_fetched_block_is_raised_by_the_read_that_needs_it():
    inner = Recording(bytes(20 * BLOCK), fail_at=4)
    with FetchedFile(inner) as file:
        assert len(file.read(BLOCK)) == len(file.read(BLOCK)) == len(file.read(BLOCK)) == BLOCK
        with pytest.raises(OSError, match="connection was lost"):
            file.read(BLOCK)


def test_closing_closes_the_file_and_ends_the_thread():
    inner = Recording(bytes(20 * BLOCK))
    file = FetchedFile(inner)
    file.read(1)
    file.read(1)
    file.close()
    file.close()
    assert inner.closed
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]
