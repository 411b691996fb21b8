"""Entries to replay by key: D2, D3, D7."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.waiting.position_set import PositionSet, by_ledger
from mledger.broker.dispatch.waiting.replay_list import KeyedReplayList
from mledger.metastore.records.position import Position

positions = st.builds(Position, st.integers(0, 2), st.integers(0, 15))


def hash_of(position):
    return (position[0] * 7 + position[1]) % 5


def group_of(key_hash):
    return key_hash % 2


def filled(some):
    replays = KeyedReplayList(group_of)
    for ledger_id, entries in by_ledger(some).items():
        replays.add(ledger_id, entries, {entry: hash_of((ledger_id, entry)) for entry in entries})
    return replays


@given(st.lists(positions), st.lists(positions), st.sets(st.integers(0, 4)), st.integers(0, 20))
def test_the_first_of_the_keys_that_may_go_come_in_order(added, taken, blocked, count):
    replays = filled(added)
    for ledger_id, entries in by_ledger(taken).items():
        gone = replays.take(ledger_id, entries)
        assert set(gone) == {entry for each, entry in {*added} & {*taken} if each == ledger_id}
    left = sorted({*added} - {*taken})
    assert len(replays) == len(left)
    assert bool(replays) == bool(left)
    expected = [each for each in left if hash_of(each) not in blocked]
    assert replays.first(count, [0, 1], lambda key_hash: key_hash not in blocked) == expected[:count]
    odd = [each for each in expected if group_of(hash_of(each)) == 1]
    assert replays.first(count, [1], lambda key_hash: key_hash not in blocked) == odd[:count]
    for key_hash in range(5):
        of_key = [each for each in left if hash_of(each) == key_hash]
        assert list(replays.of_key(key_hash)) == of_key
        assert replays.has_key(key_hash) == bool(of_key)


@given(st.lists(positions), positions)
def test_everything_up_to_a_position_is_taken(added, last):
    replays = filled(added)
    replays.take_to(last)
    assert replays.first(100, [0, 1], lambda _: True) == sorted(each for each in {*added} if each > last)


def test_owners_change():
    owners = {1: "a"}
    replays = KeyedReplayList(owners.get)
    replays.add(7, by_ledger([(7, 3)])[7], {3: 1})
    owners[1] = "b"
    replays.regroup()
    assert replays.first(9, ["a"], lambda _: True) == []
    assert replays.first(9, ["b"], lambda _: True) == [Position(7, 3)]


def test_entries_whose_hash_is_not_known_come_first_until_it_is():
    replays = filled([Position(1, 0), Position(1, 9)])
    replays.unhashed.update(PositionSet([(1, 5)]))
    assert replays.first(9, [], lambda _: False) == [Position(1, 5)]
    assert set(replays.waiting(1, by_ledger([(1, 5), (1, 9), (1, 10)])[1])) == {5, 9}
    replays.add(1, by_ledger([(1, 5)])[1], {5: 4})
    assert replays.first(9, [0, 1], lambda _: True) == [Position(1, 0), Position(1, 5), Position(1, 9)]
