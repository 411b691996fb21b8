"""Stored runs return the entries that were put in them, and parts of batch read answers."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie import wire
from mledger.bookie.server.storage.rows.runs import parse_run

KEY = b"k" * 20


def stored(number, size):
    """An entry of ledger 1 as stored."""
    return wire.ENTRY_HEAD.pack(1, number, number - 1, 0) + bytes([number % 256]) * size


numbers = st.sets(st.integers(0, 60), min_size=1, max_size=40).map(sorted)
sizes = st.one_of(st.integers(0, 300).map(lambda size: lambda _: size), st.just(lambda number: number * 31 % 97))


@given(numbers, sizes)
def test_every_entry_is_found_and_no_other(numbers, size):
    entries = {number: stored(number, size(number)) for number in numbers}
    run = parse_run(b"".join(wire.encode_add(KEY, entry) for entry in entries.values()))
    assert (run.first, run.last) == (numbers[0], numbers[-1])
    for number in range(62):
        index = run.index(number)
        assert (index >= 0) == (number in entries)
        if index >= 0:
            assert run.entry(index) == entries[number]
            assert run.frame(index) == wire.encode_add(KEY, entries[number])


@given(numbers, sizes, st.integers(0, 40), st.integers(0, 2000), st.data())
def test_a_batch_holds_consecutive_entries_within_count_and_room(numbers, size, most, room, data):
    entries = {number: stored(number, size(number)) for number in numbers}
    run = parse_run(b"".join(wire.encode_add(KEY, entry) for entry in entries.values()))
    first = data.draw(st.sampled_from(numbers))
    expected, used = [], 0
    for number in range(first, first + most):
        if number not in entries or used + 4 + len(entries[number]) > room:
            break
        expected.append(entries[number])
        used += 4 + len(entries[number])
    parts, count, taken = run.sized(run.index(first), most, room)
    assert list(wire.batch_entries(b"".join(parts))) == expected
    assert (count, taken) == (len(expected), used)
