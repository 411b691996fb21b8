"""The history checker accepts possible histories, and names what is planted in others."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.checker import (
    Acknowledged,
    FoundEntries,
    Kind,
    OwnerAppends,
    RecoveredCursor,
    RecoveredTopic,
    check_copies,
    check_cursor,
    check_delivery,
    check_ledgers,
    check_topic,
)
from tests.faults.payloads import decode_entries, payload


@dataclass
class TopicModel:
    """A correct topic: owners append, crash with appends in flight, and ledgers are trimmed."""

    given: list[OwnerAppends] = field(default_factory=list)
    ledgers: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    issued: Acknowledged = field(default_factory=Acknowledged)

    def live(self, spread: list[int], unacknowledged: int, lost: int) -> None:
        """One owner that fills ledgers of these sizes; some of its last entries are not acknowledged, some not kept."""
        epoch, number, acked = len(self.given), 0, []
        total = sum(spread)
        kept, told = total - min(lost, unacknowledged), total - unacknowledged
        for size in spread:
            ledger = self.ledgers[-1][0] + 2 if self.ledgers else 3
            entries = max(0, min(size, kept - number))
            if entries:
                self.ledgers.append((ledger, entries))
                self.rows += [(ledger, entry, epoch, number + entry) for entry in range(entries)]
            if (count := min(entries, told - number)) > 0:
                acked.append((number, ledger, 0, count - 1))
            number += size
        self.given.append(OwnerAppends(epoch, total, tuple(acked)))

    def trim(self, count: int) -> None:
        """The first ledgers are deleted, with all of their entries acknowledged."""
        for ledger, entries in self.ledgers[:count]:
            self.issued.add_run(ledger, 0, entries - 1)
            self.rows = [row for row in self.rows if row[0] != ledger]
        del self.ledgers[:count]

    @property
    def topic(self) -> RecoveredTopic:
        return RecoveredTopic(tuple(self.ledgers), FoundEntries.of(self.rows), (self.issued,))

    def kinds(self) -> set[Kind]:
        return {violation.kind for violation in check_topic(self.given, self.topic)}


@pytest.fixture
def model() -> TopicModel:
    """Two owners: the first kept 8 of 10 entries, 6 of them acknowledged; the second kept all 5."""
    model = TopicModel()
    model.live([4, 6], unacknowledged=4, lost=2)
    model.live([5], unacknowledged=0, lost=0)
    return model


lives = st.tuples(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 12), st.integers(0, 12))


def lived(all_lives, trimmed: int) -> TopicModel:
    model = TopicModel()
    for spread, unacknowledged, lost in all_lives:
        model.live(spread, min(unacknowledged, sum(spread)), lost)
    model.trim(min(trimmed, max(0, len(model.ledgers) - 1)))
    return model


@given(st.lists(lives, max_size=5), st.integers(0, 6))
@settings(max_examples=300)
def test_what_crashes_and_trims_may_leave_is_accepted(all_lives, trimmed):
    model = lived(all_lives, trimmed)
    assert check_topic(model.given, model.topic) == []


@given(st.lists(lives, min_size=1, max_size=4), st.integers(0, 2), st.data())
@settings(max_examples=300)
def test_any_missing_acknowledged_entry_is_named(all_lives, trimmed, data):
    model = lived(all_lives, trimmed)
    acked = {(ledger, entry) for own in model.given for _, ledger, a, b in own.acked for entry in range(a, b + 1)}
    there = [row for row in model.rows if row[:2] in acked]
    if there:
        row = data.draw(st.sampled_from(there))
        model.rows.remove(row)
        assert Kind.LOST in model.kinds()


@given(st.lists(lives, min_size=1, max_size=4), st.data())
@settings(max_examples=300)
def test_entries_in_the_wrong_order_are_named(all_lives, data):
    model = lived(all_lives, 0)
    if len(model.rows) >= 2:
        one, other = data.draw(st.lists(st.sampled_from(range(len(model.rows))), min_size=2, max_size=2, unique=True))
        a, b = model.rows[one], model.rows[other]
        model.rows[one], model.rows[other] = (*a[:2], *b[2:]), (*b[:2], *a[2:])
        assert model.kinds() & {Kind.OUT_OF_ORDER, Kind.MOVED}


def test_a_lost_tail_is_named_even_if_the_list_agrees_with_it(model):
    model.rows.pop()
    model.ledgers[-1] = (model.ledgers[-1][0], 4)
    assert model.kinds() == {Kind.LOST}


def test_an_unacknowledged_entry_may_be_missing_only_at_the_end_of_an_owner(model):
    ledger, entry, epoch, number = model.rows[7]
    assert (epoch, number) == (0, 7)
    model.rows[7] = (ledger, entry, epoch, 8)
    assert model.kinds() == {Kind.LOST}


def test_an_append_that_failed_may_be_missing_before_others(model):
    ledger, entry, epoch, _ = model.rows[7]
    model.rows[7] = (ledger, entry, epoch, 8)
    model.given[0] = replace(model.given[0], failed=[(6, 2)])
    assert model.kinds() == set()


def test_an_acknowledged_append_is_missing_whatever_else_failed(model):
    model.given[0] = replace(model.given[0], failed=[(0, 10)])
    model.rows.pop(2)
    assert Kind.LOST in model.kinds()


def test_a_second_copy_in_the_same_ledger_is_named(model):
    ledger, entry, epoch, number = model.rows[-1]
    model.rows.append((ledger, entry + 1, epoch, number))
    model.ledgers[-1] = (ledger, entry + 2)
    assert model.kinds() == {Kind.DOUBLE}


def test_a_second_copy_in_a_later_ledger_is_named(model):
    _, _, epoch, number = model.rows[-1]
    model.ledgers.append((99, 1))
    model.rows.append((99, 0, epoch, number))
    assert model.kinds() == {Kind.DOUBLE}


def test_an_owner_that_keeps_writing_after_the_next_one_began_is_named(model):
    model.ledgers.append((99, 1))
    model.rows.append((99, 0, 0, 8))
    assert model.kinds() == {Kind.OUT_OF_ORDER}


def test_an_entry_beyond_the_appended_ones_is_named(model):
    ledger, entry, epoch, number = model.rows[-1]
    model.rows.append((ledger, entry + 1, epoch, number + 1))
    model.ledgers[-1] = (ledger, entry + 2)
    assert model.kinds() == {Kind.MADE_UP}


def test_an_acknowledged_entry_at_another_position_is_named(model):
    shifted = [
        (ledger + 1, *rest) if ledger == model.ledgers[-1][0] else (ledger, *rest) for ledger, *rest in model.rows
    ]
    model.rows, model.ledgers[-1] = shifted, (model.ledgers[-1][0] + 1, 5)
    assert Kind.LOST in model.kinds()


def test_an_acknowledged_entry_in_another_s_place_is_named(model):
    model.given[1] = replace(model.given[1], acked=((0, model.ledgers[-1][0], 1, 4),))
    assert model.kinds() == {Kind.MOVED}


def test_a_ledger_with_another_count_than_listed_is_named(model):
    model.ledgers[-1] = (model.ledgers[-1][0], 6)
    assert model.kinds() == {Kind.GAP}


def test_entries_of_an_unlisted_ledger_are_named(model):
    model.trim(1)
    model.rows.insert(0, (3, 0, 0, 0))
    assert Kind.GAP in model.kinds()


def test_a_ledger_trimmed_before_every_entry_was_acknowledged_is_named(model):
    ledger, entries = model.ledgers[0]
    del model.ledgers[0]
    model.rows = model.rows[entries:]
    model.issued.add_run(ledger, 0, entries - 2)
    assert model.kinds() == {Kind.TRIMMED_EARLY}


def acknowledged(*runs, up_to=(-1, -1)) -> Acknowledged:
    marks = Acknowledged()
    marks.add_up_to(*up_to)
    for run in runs:
        marks.add_run(*run)
    return marks


LEDGERS = [(3, 10), (5, 10)]


def cursor_kinds(issued, durable, found, backlog) -> set[Kind]:
    return {each.kind for each in check_cursor("sub", issued, durable, RecoveredCursor(found, backlog), LEDGERS)}


def test_an_acknowledgement_in_flight_may_or_may_not_hold():
    issued, durable = acknowledged((3, 0, 4)), acknowledged((3, 0, 1))
    assert cursor_kinds(issued, durable, acknowledged((3, 0, 4)), 15) == set()
    assert cursor_kinds(issued, durable, acknowledged((3, 0, 1)), 18) == set()


def test_a_lost_flushed_acknowledgement_is_named():
    marks = acknowledged((3, 0, 4), up_to=(-1, -1))
    assert cursor_kinds(marks, marks, acknowledged((3, 0, 3)), 16) == {Kind.ACK_LOST}


def test_an_acknowledgement_that_nobody_made_is_named():
    marks = acknowledged((3, 0, 4))
    assert cursor_kinds(marks, marks, acknowledged(up_to=(3, 5)), 14) == {Kind.ACK_MADE_UP}


def test_a_backlog_off_by_one_is_named():
    marks = acknowledged(up_to=(3, 9))
    assert cursor_kinds(marks, marks, marks, 10) == set()
    assert cursor_kinds(marks, marks, marks, 11) == {Kind.BACKLOG}


@given(st.lists(st.tuples(st.sampled_from([3, 5]), st.integers(0, 9), st.integers(0, 9)), max_size=6), st.data())
@settings(max_examples=200)
def test_what_a_cursor_reads_is_what_it_has_not_acknowledged(runs, data):
    marks = acknowledged(*((ledger, min(a, b), max(a, b)) for ledger, a, b in runs))
    gone = {(ledger, entry) for ledger, a, b in runs for entry in range(min(a, b), max(a, b) + 1)}
    wanted = [(ledger, entry) for ledger, count in LEDGERS for entry in range(count) if (ledger, entry) not in gone]
    assert check_delivery("sub", RecoveredCursor(marks, len(wanted)), wanted, LEDGERS) == []
    if wanted:
        wanted.remove(data.draw(st.sampled_from(wanted)))
        (violation,) = check_delivery("sub", RecoveredCursor(marks, 0), wanted, LEDGERS)
        assert violation.kind is Kind.DELIVERY


def test_unnamed_ledgers_and_names_without_a_ledger_are_distinguished():
    assert check_ledgers({1, 2}, {1, 2}) == []
    kinds = [(violation.kind, violation.what) for violation in check_ledgers({1, 2}, {2, 7})]
    assert kinds == [(Kind.LOST_LEDGER, "ledger 1"), (Kind.ORPHAN, "ledger 7")]


def test_too_few_or_different_copies_are_named():
    entries = {0: b"a", 1: b"b"}
    assert check_copies(3, entries, {0: [b"a", b"a"], 1: [b"b", b"b", b"b"]}, 2) == []
    assert [each.kind for each in check_copies(3, entries, {0: [b"a", b"a"]}, 2)] == [Kind.FEW_COPIES]
    found = check_copies(3, entries, {0: [b"a", b"x"], 1: [b"b", b"b"]}, 2)
    assert [each.kind for each in found] == [Kind.REPLICA_DIFFERS]


def test_a_payload_that_no_owner_wrote_is_named():
    good = payload(2, 7)
    found, altered = decode_entries([(3, 0, good)])
    assert found.rows.tolist() == [[3, 0, 2, 7]]
    assert altered == []
    for bad in (good[:-1], good[:-1] + b"y", b"", b"\xff nothing"):
        assert [each.kind for each in decode_entries([(3, 0, bad)])[1]] == [Kind.ALTERED]
