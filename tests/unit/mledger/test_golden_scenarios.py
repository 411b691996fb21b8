"""Topics of Java opened from each dump, by the plans alone: we find what Java had then.

Intended differences (docs/reference/semantics.md, last section) are asserted as differences.
"""

import pytest

from mledger.config import ManagedLedgerConfig
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerEnd, ledgers_to_recover, plan_open
from mledger.ledgers.trim_plan import plan_trim
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from tests.support.recordings.plan_only_open import Recovered, now_ms, open_topic
from tests.support.recordings.scenarios import Reopening, load, parse_ranges, reopenings, scenario_paths, states

REOPENINGS = [each for path in scenario_paths() for each in reopenings(path)]

# (scenario, stage): what Java lost and we keep
BATCHES_KEPT = {("cursor-batch", "cumulative"), ("cursor-batch", "closed")}
RANGES_KEPT = {("cursor-too-many-holes-longarray", "reopened after crash")}
PROPERTIES_KEPT = {("cursor-ledger-deleted", "before reopen")}


def new_ledger(state: dict) -> int | None:
    return next((ledger["ledgerId"] for ledger in state["ledgers"] if not ledger["closed"]), None)


def reopened(case: Reopening) -> Recovered:
    return open_topic(case.stores, case.topic, new_ledger(case.state))


def config_of(case: Reopening) -> ManagedLedgerConfig:
    return ManagedLedgerConfig(
        retention_time_ms=case.config["retentionTimeMs"], retention_size_in_mb=case.config["retentionSizeInMB"]
    )


def test_there_are_scenarios_to_check():
    assert len(REOPENINGS) > 100


@pytest.mark.parametrize("case", REOPENINGS, ids=lambda case: case.id)
def test_the_list_of_ledgers_is_java_s(case):
    result = reopened(case)
    marks = {name: plan.mark_delete for name, plan in result.cursors.items()}
    kept = plan_trim(result.ledgers, marks, config_of(case), now_ms(case.stores, case.topic) + 1000).remaining
    assert [(info.ledger_id, info.entries) for info in kept] == [
        (ledger["ledgerId"], ledger["entries"] or 0) for ledger in case.state["ledgers"]
    ]
    sizes = {ledger["ledgerId"]: ledger["size"] for ledger in case.state["ledgers"] if ledger["closed"]}
    assert {info.ledger_id: info.size for info in kept if info.ledger_id in sizes} == sizes
    assert sum(info.entries for info in kept) == case.state["numberOfEntries"]


@pytest.mark.parametrize("case", REOPENINGS, ids=lambda case: case.id)
def test_every_cursor_is_where_java_s_is(case):
    key = (case.scenario.rsplit("-", 1)[0], case.stage)
    expected = {cursor["name"]: cursor for cursor in case.state["cursors"]}
    for name, plan in reopened(case).cursors.items():
        cursor = expected[name]
        batches = {str(batch.position): list(batch.words) for batch in plan.acks.batch_deletions()}
        assert (plan.move_to or plan.mark_delete) == Position(*cursor["markDeletePosition"])
        assert plan.read_position == Position(*cursor["readPosition"])
        assert dict(plan.cursor_properties) == cursor["cursorProperties"]
        if key in RANGES_KEPT:
            assert set(parse_ranges(cursor["individuallyDeleted"])) < set(plan.acks.ranges())
            assert plan.backlog < cursor["backlogPrecise"]
        else:
            assert plan.acks.describe_ranges() == cursor["individuallyDeleted"]
            assert plan.backlog == cursor["backlogPrecise"]
        assert dict(plan.properties) == ({"p": 1} if key in PROPERTIES_KEPT else cursor["properties"])
        if key in BATCHES_KEPT:
            assert cursor["batchDeletedIndexes"] == {}
            assert len(batches) == 1
        else:
            assert batches == cursor["batchDeletedIndexes"]


@pytest.mark.parametrize("case", REOPENINGS, ids=lambda case: case.id)
def test_the_rule_names_where_the_state_was_found(case):
    records = case.stores.cursors(case.topic)
    for name, plan in reopened(case).cursors.items():
        ledger = records[name].cursors_ledger_id
        if ledger == -1:
            assert (plan.rule, plan.at, plan.old_cursor_ledger) == ("R2", None, None)
        elif case.stores.ledgers.get(ledger):
            assert plan.rule == "R3"
            assert plan.at == Position(ledger, max(case.stores.ledgers[ledger]))
        else:
            assert plan.rule == "R4"
            assert plan.persist
            assert plan.warnings


def opened_by_hand(scenario: dict, topic: str) -> tuple[dict[str, bytes], list[dict]]:
    """Cursor znodes written by hand for `topic`, and the states after it was opened with them."""
    written: dict[str, bytes] = {}
    events = scenario["events"]
    for index, event in enumerate(events):
        if event["op"] == "cursor znode written by hand" and event["path"].startswith(f"/managed-ledgers/{topic}/"):
            written[event["path"].rsplit("/", 1)[-1]] = bytes.fromhex(event["data_hex"])
        if event["op"] == "open managed ledger" and event["name"] == topic and written:
            if event.get("error"):
                return written, []
            return written, next(states(after) for after in events[index + 1 :] if states(after))
    raise AssertionError(f"{topic} has no cursor written by hand")


def closed_list(state: dict) -> ManagedLedgerInfo:
    """The topic's record before that opening: every ledger closed."""
    return ManagedLedgerInfo(
        tuple(LedgerInfo(each["ledgerId"], each["entries"], each["size"], 1) for each in state["ledgers"][:-1])
    )


@pytest.mark.parametrize("variant", [0, 1])
def test_cursors_at_odd_positions_recover_as_in_java(variant):
    scenario = load(f"cursor-positions-on-open-{variant}")
    topic = f"golden/cursor-positions-on-open/persistent/t{variant}"
    written, (state,) = opened_by_hand(scenario, topic)
    info = closed_list(state)
    ends = {info.ledgers[-1].ledger_id: LedgerEnd(info.ledgers[-1].entries, info.ledgers[-1].size)}
    ledgers = plan_open(info, ends, 2).ledgers(state["ledgers"][-1]["ledgerId"])
    expected = {cursor["name"]: cursor for cursor in state["cursors"]}
    assert len(written) >= 10
    for name, data in written.items():
        plan = plan_cursor_recovery(name, decode_managed_cursor_info(data).value, None, ledgers)
        cursor = expected[name]
        moved = plan.move_to or plan.mark_delete
        assert (name, moved) == (name, Position(*cursor["markDeletePosition"]))
        assert (name, plan.read_position) == (name, Position(*cursor["readPosition"]))
        assert (name, plan.backlog) == (name, cursor["backlogPrecise"])
        # R6, R7 and R9 moves are durable here, but in memory in Java
        stored = decode_managed_cursor_info(data).value.mark_delete
        assert plan.persist == (moved != stored)


def plan_range(data: bytes) -> PositionRange:
    (written,) = decode_managed_cursor_info(data).value.ranges
    return written


# What becomes of ranges in missing ledgers, or past a ledger's end; Java keeps them (R7, C8).
RANGES_HERE = {
    "missing-before": "[]",
    "into-missing": "[({last}:1..{last}:2]]",
    "past-end-of-ledger": "[({middle}:2..{middle}:4]]",
    # everything at or below mark-delete is deleted anyway
    "below-mark-delete": "[]",
    "over-mark-delete": "[({first}:1..{first}:3]]",
}


RANGE_CASES = [(variant, topic) for variant in (0, 1) for topic in load(f"ranges-on-open-{variant}")["managedLedgers"]]


@pytest.mark.parametrize(("variant", "topic"), RANGE_CASES, ids=lambda value: str(value).rsplit("/", 1)[-1])
def test_ranges_written_by_hand_recover_as_in_java(variant, topic):
    scenario = load(f"ranges-on-open-{variant}")
    written, found = opened_by_hand(scenario, topic)
    ((name, data),) = written.items()
    before = next(
        state
        for event in scenario["events"]
        for state in states(event)
        if state["managedLedger"] == topic and state["numberOfEntries"]
    )
    first, middle, last = (ledger["ledgerId"] for ledger in before["ledgers"])
    info = ManagedLedgerInfo((LedgerInfo(first, 5, 0, 1), LedgerInfo(middle, 5, 0, 1), LedgerInfo(last)))
    ledgers = plan_open(info, {last: LedgerEnd(3, 0)}, 2).ledgers(last + 1)
    plan = plan_cursor_recovery(name, decode_managed_cursor_info(data).value, None, ledgers)
    if not found:
        # in Java the whole topic failed to open
        assert name in ("inverted-ledgers", "inverted")
        assert plan.warnings == (f"range {plan_range(data)} is invalid: skipped",)
        assert plan.backlog == 11
        return
    (cursor,) = found[0]["cursors"]
    assert plan.mark_delete == Position(*cursor["markDeletePosition"])
    assert plan.read_position == Position(*cursor["readPosition"])
    if name in RANGES_HERE:
        here = RANGES_HERE[name].format(first=first, middle=middle, last=last)
        assert plan.acks.describe_ranges() == here != cursor["individuallyDeleted"]
    else:
        assert plan.acks.ranges() == parse_ranges(cursor["individuallyDeleted"])
    if name == "past-end-of-ledger":
        assert (plan.backlog, cursor["backlogPrecise"]) == (9, -27)
    elif name == "over-mark-delete":
        # 13 entries, 0 to 3 of the first ledger deleted; Java may count one more, depending on its cache
        assert (plan.backlog, cursor["backlogPrecise"]) == (9, 8 if variant == 0 else 9)
    else:
        assert plan.backlog == cursor["backlogPrecise"]


@pytest.mark.parametrize("variant", [0, 1])
def test_a_missing_last_ledger_is_dropped(variant):
    scenario = load(f"last-data-ledger-deleted-{variant}")
    events = scenario["events"]
    gone = next(event["ledgerId"] for event in events if event["op"] == "ledger deleted behind its back")
    at = next(index for index, event in enumerate(events) if event.get("stage") == "after reopen")
    (before,) = [states(event) for event in events[:at] if states(event)][-1]
    after = events[at]["state"]
    info = ManagedLedgerInfo(
        tuple(LedgerInfo(each["ledgerId"], each["entries"] or 0, each["size"] or 0, 1) for each in before["ledgers"])
    )
    assert ledgers_to_recover(info) == (gone,)
    plan = plan_open(info, {gone: None}, 2)
    assert plan.missing == (gone,)
    assert plan.warnings == (f"ledger {gone} does not exist: dropped from the list",)
    after_list = plan.info(after["ledgers"][-1]["ledgerId"]).ledgers
    assert [info.ledger_id for info in after_list] == [each["ledgerId"] for each in after["ledgers"]]
