"""How many entries a member of an ensemble holds."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.tables.ledgers import entries_held


@given(st.integers(0, 50), st.integers(-1, 60), st.integers(1, 7), st.data())
def test_entries_held_are_those_whose_write_set_has_the_member(first, length, ensemble_size, data):
    write_quorum = data.draw(st.integers(1, ensemble_size))
    last = first + length - 1
    for member in range(ensemble_size):
        holding = [
            entry
            for entry in range(first, last + 1)
            if member in [(entry + copy) % ensemble_size for copy in range(write_quorum)]
        ]
        assert entries_held(first, last, member, ensemble_size, write_quorum) == len(holding)
