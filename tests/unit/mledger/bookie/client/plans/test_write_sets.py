"""Which bookies of an ensemble hold which entries."""

from mledger.bookie.client.plans.write_sets import entries_of, write_set


def test_q1_names_the_write_set():
    assert [write_set(entry, 3, 2) for entry in range(4)] == [(0, 1), (1, 2), (2, 0), (0, 1)]
    assert list(entries_of(0, 0, 5, 3, 2)) == [0, 2, 3, 5]
