"""The size of reads: D10."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.read_size import ReadSize
from mledger.broker.dispatch.settings import DispatchSettings

SETTINGS = DispatchSettings(max_read_batch=100, min_read_batch=1, failure_backoff_ms=100, max_failure_backoff_ms=400)


def test_a_read_asks_for_no_more_than_the_batch():
    assert ReadSize(SETTINGS).entries(1_000, 1 << 20) == 100


def test_permits_are_divided_by_the_average_batch():
    size = ReadSize(SETTINGS)
    size.came(10, 100, 1_000)
    assert size.entries(55, 1 << 20) == 6


def test_bytes_are_divided_by_the_average_entry():
    size = ReadSize(SETTINGS)
    size.came(10, 10, 10_000)
    assert size.entries(100, 4_500) == 4


def test_the_batch_falls_after_a_failure_and_doubles_back():
    size = ReadSize(SETTINGS)
    size.failed(0)
    batches = [size.entries(1_000, 1 << 20)]
    for _ in range(8):
        size.came(0, 0, 0)
        batches.append(size.entries(1_000, 1 << 20))
    assert batches == [1, 2, 4, 8, 16, 32, 64, 100, 100]


def test_pauses_after_failures_double_up_to_the_most():
    size = ReadSize(SETTINGS)
    pauses = []
    for _ in range(4):
        size.failed(1_000)
        pauses.append(size.not_before_ms - 1_000)
    assert pauses == [100, 200, 400, 400]


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 100), st.integers(1, 1 << 20)), max_size=20),
    st.integers(1, 10_000),
    st.integers(1, 10 << 20),
)
def test_a_read_asks_for_at_least_one_entry_and_never_more_than_permits(past, messages, max_bytes):
    size = ReadSize(SETTINGS)
    for entries, batch, entry_size in past:
        size.came(entries, entries * batch, entries * entry_size)
    assert 1 <= size.entries(messages, max_bytes) <= min(100, messages)
