"""The worst cursors are the same whatever the order in which they come, and no more than wanted."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.exporter.worst_cursors import RankedCursor, WorstCursors

cursors = st.lists(
    st.builds(RankedCursor, st.integers(-2, 6), st.sampled_from("abc"), st.sampled_from("xyz"), st.just("znode")),
    max_size=30,
)


@given(cursors, st.integers(0, 6), st.randoms(use_true_random=False))
def test_the_worst_are_the_first_of_all_in_order(all_cursors, most, random):
    shuffled = random.sample(all_cursors, len(all_cursors))
    worst = WorstCursors(most)
    for each in shuffled:
        worst.add(*each)
    assert worst.worst_first() == sorted((each for each in all_cursors if each.value > 0), reverse=True)[:most]
