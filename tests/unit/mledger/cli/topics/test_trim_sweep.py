"""What `mledger topics trim` decides for many topics, over plain values."""

import pytest

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import OpeningView
from mledger.admin.undo.undo_file import ChangedRecord, NodeState
from mledger.cli.shared.changes.change_command import plan_unchanged
from mledger.cli.shared.targets import TopicSelection
from mledger.cli.topics.trim_sweep import LeftTopic, PlannedTrims, exit_code_of, plan_change, plan_trim_of
from mledger.config import ManagedLedgerConfig
from mledger.cursors.compaction import why_never_trimmed
from mledger.errors import CursorRecoveryFailed, OwnedElsewhere, ShadowTopic
from mledger.ledgers.ledger_list import plan_open
from mledger.ledgers.retention import KEEP_ALL, TopicPolicies, retention_in_force
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo

ORDERS = TopicName.parse("shop/eu/orders")
REFUNDS = TopicName.parse("shop/eu/refunds")
EVENTS = TopicName.parse("shop/eu/__change_events")
NOW_MS = 1_000_000
NOTHING = retention_in_force(TopicPolicies(), ManagedLedgerConfig())
SCOPE = TopicSelection.of(None, "shop/eu", False)


def record(topic: TopicName, version: int = 7) -> ChangedRecord:
    return ChangedRecord(topic.managed_ledger_path, NodeState(b"", version))


def view(*cursors: CursorInspection, properties: tuple[tuple[str, str], ...] = ()) -> OpeningView:
    """A topic with two closed ledgers of 10 entries and 120 bytes each."""
    info = ManagedLedgerInfo((LedgerInfo(1, 10, 120, NOW_MS), LedgerInfo(2, 10, 120, NOW_MS)), properties=properties)
    return OpeningView(info, plan_open(info, {}, NOW_MS).ledgers(3), 3, cursors, ())


def planned(topic: TopicName, seen: OpeningView, retention=NOTHING):
    return plan_trim_of(topic, seen, retention, (record(topic),), NOW_MS)


def test_a_topic_that_would_lose_nothing_is_not_in_the_plan() -> None:
    assert planned(ORDERS, view(), KEEP_ALL) is None


def test_the_plan_counts_what_all_topics_would_lose_and_names_those_left_out() -> None:
    trims = (planned(ORDERS, view()), planned(REFUNDS, view()))
    left = LeftTopic.by(EVENTS, OwnedElsewhere("it has an owner"))
    change = plan_change(SCOPE, PlannedTrims(5, trims, (left,)))
    shown = change.plan.as_json()
    assert (shown["topics"], shown["topics_to_trim"], shown["ledgers_deleted"]) == (5, 2, 4)
    assert (shown["entries_deleted"], shown["bytes_deleted"]) == (40, 480)
    assert [each["topic"] for each in shown["to_trim"]] == [str(ORDERS), str(REFUNDS)]
    assert shown["left"] == [{"topic": str(EVENTS), "reason": "it has an owner"}]
    assert change.managed_ledgers == (ORDERS.managed_ledger_name, REFUNDS.managed_ledger_name)
    assert len(change.lost) == 2
    assert change.pending


def test_nothing_is_pending_if_all_topics_are_left_out() -> None:
    left = LeftTopic.by(ORDERS, OwnedElsewhere("it has an owner"))
    assert not plan_change(SCOPE, PlannedTrims(1, (), (left,))).pending


def test_a_shadow_is_not_trimmed() -> None:
    with pytest.raises(ShadowTopic):
        planned(ORDERS, view(properties=(("PULSAR.SHADOW_SOURCE", "shop/eu/source"),)))


def test_a_system_topic_without_cursors_is_left_out_and_named() -> None:
    assert isinstance(planned(TopicName.parse("shop/eu/__transaction_log_0"), view()), LeftTopic)


def test_a_topic_that_is_only_compacted_is_left_out_with_the_reason() -> None:
    assert planned(EVENTS, view()) == LeftTopic(EVENTS, why_never_trimmed(EVENTS, ()))


def test_a_cursor_with_an_unreadable_state_leaves_its_topic_out_of_the_plan() -> None:
    broken = CursorInspection("one", "/managed-ledgers/one", 1, None, None, CursorRecoveryFailed("bookies are away"))
    with pytest.raises(CursorRecoveryFailed):
        planned(ORDERS, view(broken))


def test_a_topic_changed_since_planning_is_left_out_with_its_records_and_losses() -> None:
    change = plan_change(SCOPE, PlannedTrims(2, (planned(ORDERS, view()), planned(REFUNDS, view())), ()))
    left = plan_unchanged(change, (record(ORDERS, 8), record(REFUNDS)))
    assert left.managed_ledgers == (REFUNDS.managed_ledger_name,)
    assert left.before == (record(REFUNDS),)
    assert len(left.lost) == 1


def test_if_every_topic_was_changed_nothing_is_done() -> None:
    change = plan_change(SCOPE, PlannedTrims(1, (planned(ORDERS, view()),), ()))
    with pytest.raises(BadVersion):
        plan_unchanged(change, (record(ORDERS, 8),))


def test_the_first_topic_wrongly_left_out_decides_the_exit_code() -> None:
    shadow = LeftTopic.by(ORDERS, ShadowTopic("a shadow"))
    away = LeftTopic.by(REFUNDS, CursorRecoveryFailed("bookies are away"))
    owned = LeftTopic.by(EVENTS, OwnedElsewhere("it has an owner"))
    assert exit_code_of([]) == exit_code_of([shadow]) == 0
    assert exit_code_of([shadow, away, owned]) == 5
    assert exit_code_of([owned, away]) == 4
