"""Sets of positions, against Python's own sets."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.waiting.position_set import PositionSet, by_ledger, entries_at, run
from mledger.metastore.records.position import Position

positions = st.builds(Position, st.integers(0, 3) | st.just(2**40), st.integers(0, 20) | st.just(2**32 - 2))
some = st.lists(positions, max_size=20)


def of(items):
    found = PositionSet()
    for ledger_id, entries in by_ledger(items).items():
        found.add(ledger_id, entries)
    return found


@given(some, some)
def test_positions_are_added_and_taken_as_from_a_set(added, taken):
    found, model = of(added), set(added)
    for ledger_id, entries in by_ledger(taken).items():
        gone = found.take(ledger_id, entries)
        assert set(gone) == {entry for each, entry in model & set(taken) if each == ledger_id}
    model -= set(taken)
    assert list(found) == sorted(model)
    assert len(found) == len(model)
    assert bool(found) == bool(model)
    assert all(found.bits(ledger_id) for ledger_id, _ in found.ledgers())


@given(some, positions)
def test_everything_up_to_a_position_is_taken(added, last):
    found = of(added)
    gone = found.take_to(last)
    assert set(gone) == {each for each in added if each <= last}
    assert set(found) == {each for each in added if each > last}


@given(some, st.integers(0, 30))
def test_the_first_come_in_order(added, count):
    assert of(added).first(count) == sorted(set(added))[:count]


@given(some, some)
def test_sets_are_united(one, other):
    found = of(one)
    found.update(of(other))
    assert set(found) == {*one, *other}
    assert all(each in found for each in one)
    assert (9, 9) not in found


def test_changes_of_a_set_leave_what_was_added_as_it_is():
    entries = run(0, 5)
    found = PositionSet()
    found.add(1, entries)
    found.take(1, run(0, 2))
    assert entries == run(0, 5)


def test_entries_of_a_run_are_found_by_index():
    assert list(entries_at(10, range(2, 4))) == [12, 13]
    assert list(entries_at(10, [0, 3])) == [10, 13]
    assert not run(3, 3)


@given(some)
def test_entries_that_no_ledger_has_are_left_out(found):
    impossible = [Position(1, -1), Position(1, 2**32), Position(2, 2**63 - 1)]
    assert by_ledger([*impossible, *found]) == by_ledger(found)
