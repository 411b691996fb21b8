"""What a consumer holds, against a plain dictionary: D1, D3, D4."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.waiting.pending_entries import PendingEntries
from mledger.broker.dispatch.waiting.position_set import by_ledger, run
from mledger.metastore.records.position import Position

deliveries = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 3),
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=6),
        st.booleans(),
    ),
    max_size=8,
)


@given(deliveries, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=30))
def test_messages_and_hashes_of_what_is_held_are_exact(sent, taken):
    pending, model = PendingEntries(), {}
    for number, (ledger_id, skip, facts, scattered) in enumerate(sent):
        first = number * 10
        indexes = range(min(skip, len(facts) - 1), len(facts))
        chosen = list(indexes) if scattered else indexes
        batches = [facts[i][0] for i in chosen]
        hashes = [key_hash for _, key_hash in facts]
        pending.hold(ledger_id, first, chosen, None if set(batches) == {1} else batches, hashes)
        model.update({(ledger_id, first + i): facts[i] for i in chosen})
    for ledger_id, entries in by_ledger(taken).items():
        expected = {entry for each, entry in model if each == ledger_id and entry in entries}
        hashes = [model[ledger_id, entry][1] for entry in sorted(expected)]
        assert pending.hashes_of(ledger_id, entries & pending.bits(ledger_id)) == hashes
        gone, messages = pending.take(ledger_id, entries)
        assert set(gone) == expected
        assert messages == sum(model.pop((ledger_id, entry))[0] for entry in expected)
    assert set(pending.positions()) == set(model)
    assert len(pending) == len(model)
    assert all(pending.messages(Position(*each)) == facts[0] for each, facts in model.items())


def test_a_part_of_a_batch_leaves_the_rest():
    pending = PendingEntries()
    pending.hold(1, 0, range(1), [5])
    assert pending.take_part(Position(1, 0), 2) == 2
    assert pending.messages(Position(1, 0)) == 3
    assert pending.take_part(Position(1, 0), 9) == 3
    assert not pending
    assert pending.take_part(Position(1, 0), 1) == 0


def test_hashes_of_entries_that_are_gone_are_let_go_of():
    pending = PendingEntries()
    for number in range(100):
        pending.hold(1, number * 100, range(100), None, [7] * 100)
        pending.take(1, run(number * 100 + 1, number * 100 + 100))
    assert len(pending.hashes(1)) < 5_000
    assert pending.hashes_of(1, pending.bits(1)) == [7] * 100
