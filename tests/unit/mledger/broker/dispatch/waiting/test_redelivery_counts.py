"""Redelivery counts, against a plain counter: D3."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.waiting.position_set import by_ledger
from mledger.broker.dispatch.waiting.redelivery_counts import RedeliveryCounts
from mledger.metastore.records.position import Position

positions = st.builds(Position, st.integers(0, 2), st.integers(0, 12))
steps = st.lists(st.tuples(st.sampled_from(["back", "acknowledged", "expired"]), st.lists(positions, max_size=5)))


@given(steps)
def test_counts_are_those_of_entries_taken_back_and_not_yet_acknowledged(given_steps):
    counts, model = RedeliveryCounts(), Counter()
    for step, some in given_steps:
        if step == "expired":
            for last in some[:1]:
                counts.forget_to(last)
                model = Counter({each: count for each, count in model.items() if each > last})
            continue
        for ledger_id, entries in by_ledger(some).items():
            if step == "back":
                counts.taken_back(ledger_id, entries)
                model.update(Position(ledger_id, entry) for entry in entries)
            else:
                counts.forget(ledger_id, entries)
                for entry in entries:
                    model.pop(Position(ledger_id, entry), None)
    assert len(counts) == len(model)
    assert bool(counts) == bool(model)
    for ledger_id in range(3):
        expected = [model[Position(ledger_id, entry)] for entry in range(13)]
        for indexes in (range(13), list(range(13))):
            assert (counts.of(ledger_id, 0, indexes) or [0] * 13) == expected


def test_entries_that_were_never_taken_back_have_no_counts():
    counts = RedeliveryCounts()
    counts.taken_back(1, by_ledger([Position(1, 5)])[1])
    assert counts.of(1, 0, range(5)) is None
    assert counts.of(1, 0, [0, 6]) is None
    assert counts.of(2, 0, range(9)) is None
    assert counts.of(1, 4, range(3)) == [0, 1, 0]
