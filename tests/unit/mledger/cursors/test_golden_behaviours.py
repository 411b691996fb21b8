"""What Java did, call by call, replayed on the pure functions: the same answers, the same states.

Intended differences (docs/reference/semantics.md, last section) are asserted as differences.
"""

import json

import pytest

from mledger.config import ManagedLedgerConfig
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog, count_between, count_from
from mledger.cursors.positions import (
    find_newest,
    is_valid,
    next_valid,
    plan_reset,
    position_after_n,
    position_after_skip,
    previous,
)
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.trim_plan import plan_trim
from mledger.metastore.records.position import NO_ENTRY, Position
from tests.support.recordings.scenarios import batch_deletions, ledger_list, load, parse_ranges, scenario_paths, states

LONG_TIME_MS = 10**12


def arithmetic(op: str) -> list[tuple[LedgerList, dict]]:
    cases = []
    for variant in (0, 1):
        events = load(f"position-arithmetic-{variant}")["events"]
        (state,) = next(states(event) for event in events if event["op"] == "state")
        cases += [(ledger_list(state), event) for event in events if event["op"] == op]
    assert cases
    return cases


def test_next_valid_position():
    for ledgers, event in arithmetic("getNextValidPosition"):
        of = Position(*event["of"])
        assert (of, next_valid(ledgers, of)) == (of, Position(*event["result"]))


def test_previous_position():
    for ledgers, event in arithmetic("getPreviousPosition"):
        of = Position(*event["of"])
        assert (of, previous(ledgers, of)) == (of, Position(*event["result"]))


def test_valid_positions():
    for ledgers, event in arithmetic("isValidPosition"):
        of = Position(*event["of"])
        assert (of, is_valid(ledgers, of)) == (of, event["result"])


def test_position_after_n():
    for ledgers, event in arithmetic("getPositionAfterN"):
        start, included = Position(*event["start"]), event["bound"] == "startIncluded"
        found = position_after_n(ledgers, start, event["n"], start_included=included)
        assert (start, event["n"], included, found) == (start, event["n"], included, Position(*event["result"]))


def test_number_of_entries_counts_those_that_exist():
    for ledgers, event in arithmetic("numberOfEntries"):
        lower, upper = (Position(*end) for end in event["openClosed"])
        counted = count_between(ledgers, lower, upper)
        if upper.entry_id < max(1, ledgers.entries(upper.ledger_id)) or upper.ledger_id not in ledgers:
            expected = event.get("result", 0)
        else:
            # Java counts places past a ledger's end as entries; we count entries (C8).
            expected = count_between(ledgers, lower, Position(upper.ledger_id, ledgers.entries(upper.ledger_id) - 1))
            assert event["result"] > expected
        if upper == Position(ledgers.current, 0):
            assert (event["result"], counted) == (ledgers.total_entries + 1, ledgers.total_entries)
        else:
            assert (upper, counted) == (upper, expected)


def test_first_and_last_positions():
    for (ledgers, first), (_, last) in zip(
        arithmetic("getFirstPosition"), arithmetic("getLastConfirmedEntry"), strict=True
    ):
        assert ledgers.first_position == Position(*first["result"])
        assert ledgers.last_confirmed == Position(*last["result"])


def search(ledgers: LedgerList, limit: Position) -> Position | None:
    search = find_newest(ledgers, ledgers.first_position)
    asked = 0
    try:
        position = next(search)
        while True:
            asked += 1
            position = search.send(position <= limit)
    except StopIteration as stop:
        assert asked <= 2 + ledgers.total_entries.bit_length()
        return stop.value


@pytest.mark.parametrize("variant", [0, 1])
def test_find_newest_matching(variant):
    searches = [event for event in load(f"find-{variant}")["events"] if event["op"] == "find newest matching"]
    assert searches
    for event in searches:
        (state,) = states(event)
        expected = Position(*event["result"]) if "result" in event else None
        assert search(ledger_list(state), Position(*event["limit"])) == expected


@pytest.mark.parametrize("variant", [0, 1])
def test_skip_with_and_without_deleted_entries(variant):
    skips = [event for event in load(f"skip-{variant}")["events"] if event["op"] == "skip"]
    assert skips
    for event in skips:
        ledgers = ledger_list(*states(event))
        acks = AckState(ledgers.first_position)
        acks.acknowledge((Position(*each) for each in event["deleted"]), ledgers)
        to = position_after_skip(ledgers, acks, event["n"], count_deleted=event["deletedEntries"] == "Include")
        acks.acknowledge_cumulative(to, ledgers)
        assert_cursor(event["result"], acks, ledgers)
        assert next_valid(ledgers, acks.mark_delete) == Position(*event["result"]["readPosition"])


@pytest.mark.parametrize("variant", [0, 1])
def test_reset_to_any_position(variant):
    resets = [event for event in load(f"reset-{variant}")["events"] if event["op"] == "reset cursor"]
    assert resets
    for event in resets:
        ledgers = ledger_list(*states(event))
        name, to, cursor = event["cursor"].rsplit("-", 1)[0], Position(*event["to"]), event["result"]
        before = event["before"]
        acks = recovered(before, ledgers)
        plan = plan_reset(ledgers, to, force=event["force"])
        acks.reset(plan.mark_delete)
        mark_delete, read_position = Position(*cursor["markDeletePosition"]), Position(*cursor["readPosition"])
        left = cursor["backlogPrecise"]
        if name == "EARLIEST":
            # Java reads from entry -1 on, which is entry 0.
            read_position = Position(read_position.ledger_id, 0)
        elif name == "later-ledger" and event["force"]:
            # Java takes the ledger being written for empty (C6 uses its live count).
            mark_delete, left = ledgers.last_confirmed, 0
        elif name == "far-past-end-of-first-ledger" and event["force"]:
            assert left < 0
            left = ledgers.total_entries - ledgers.entries(to.ledger_id)
        assert (event["cursor"], plan.mark_delete, plan.read_position) == (event["cursor"], mark_delete, read_position)
        assert (event["cursor"], backlog(ledgers, acks)) == (event["cursor"], left)
        assert acks.ranges() == []


def assert_cursor(cursor: dict, acks: AckState, ledgers: LedgerList) -> None:
    assert acks.mark_delete == Position(*cursor["markDeletePosition"])
    assert acks.ranges() == parse_ranges(cursor["individuallyDeleted"])
    assert {str(each.position): list(each.words) for each in acks.batch_deletions()} == cursor["batchDeletedIndexes"]
    assert backlog(ledgers, acks) == cursor["backlogPrecise"]


def recovered(cursor: dict, ledgers: LedgerList) -> AckState:
    acks, warnings = AckState.recover(
        Position(*cursor["markDeletePosition"]),
        ledgers,
        ranges=parse_ranges(cursor["individuallyDeleted"]),
        batch_deletions=batch_deletions(cursor),
    )
    assert not warnings
    return acks


# Two owners at once, or a ledger fenced under its owner: these tests need real stores.
NEEDS_STORES = {"two-brokers", "writer-fenced"}
# test_golden_scenarios tests what becomes of ranges written by hand.
WRITTEN_BY_HAND = {"ranges-on-open"}
# Its reads skip a lost ledger, which deletes that ledger's entries.
READS_DELETE = {"middle-data-ledger-deleted-1"}
# The state before is not that of the step before: opened again, or reset and skip, which have their own tests.
OPENED_ANEW = {"open managed ledger", "open cursor", "open cursor with properties", "new broker (factory)"}
OWN_TEST = {"skip", "reset cursor"}


def acknowledge(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    acks.acknowledge([Position(*each) for each in event["positions"]], ledgers)


def acknowledge_batches(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    for each in event.get("acks", [event]):
        acks.acknowledge_batch(Position(*each["position"]), each["ackSet"], ledgers)


def mark_delete(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    if "error" not in event:
        acks.acknowledge_cumulative(Position(*event["position"]), ledgers, event.get("ackSet", ()))
        return
    with pytest.raises(InvalidPosition):
        acks.acknowledge_cumulative(Position(*event["position"]), ledgers)


def clear_backlog(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    acks.acknowledge_cumulative(ledgers.last_confirmed, ledgers)


def skip_ledger(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    acks.acknowledge_run(event["ledgerId"], 0, ledgers.entries(event["ledgerId"]) - 1, ledgers)


def delete_past_the_end(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    with pytest.raises(InvalidPosition):
        acks.acknowledge([past_the_end(ledgers)], ledgers)


def mark_delete_past_the_end(event: dict, acks: AckState, ledgers: LedgerList) -> None:
    with pytest.raises(InvalidPosition):
        acks.acknowledge_cumulative(past_the_end(ledgers), ledgers)


# What a step does to a cursor. Other steps do nothing to it.
ACTIONS = {
    "individual delete": acknowledge,
    "individual delete with ack sets": acknowledge_batches,
    "second ack for entry": acknowledge_batches,
    "ack set empty": acknowledge_batches,
    "mark delete": mark_delete,
    "mark delete with properties": mark_delete,
    "cumulative ack with ack set": mark_delete,
    "clear backlog": clear_backlog,
    "truncate": clear_backlog,
    "skip non recoverable ledger": skip_ledger,
    "delete past the end": delete_past_the_end,
    "mark delete past the end": mark_delete_past_the_end,
}


def past_the_end(ledgers: LedgerList) -> Position:
    return Position(ledgers.last_confirmed.ledger_id, ledgers.last_confirmed.entry_id + 1)


REPLAYS = [path for path in scenario_paths() if path.stem.rsplit("-", 1)[0] not in NEEDS_STORES | WRITTEN_BY_HAND]


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_every_step_leaves_each_cursor_where_java_left_it(path):
    cursors: dict[str, AckState] = {}
    before: LedgerList | None = None
    topic = None
    for event in json.loads(path.read_text())["events"]:
        found = states(event)
        if not found or event["op"] in OWN_TEST:
            cursors, before = {}, None
            continue
        (state,) = found
        ledgers = ledger_list(state)
        if before is None or topic != state["managedLedger"] or event["op"] in OPENED_ANEW:
            cursors = {each["name"]: recovered(each, ledgers) for each in state["cursors"]}
        for cursor in state["cursors"]:
            acks = cursors.get(cursor["name"])
            if acks is None or (event["op"] == "read entries" and path.stem in READS_DELETE):
                cursors[cursor["name"]] = acks = recovered(cursor, ledgers)
            elif (
                before is not None and event["op"] in ACTIONS and event.get("cursor", cursor["name"]) == cursor["name"]
            ):
                ACTIONS[event["op"]](event, acks, before)
            assert_cursor(cursor, acks, ledgers)
            if cursor["readPosition"][1] != NO_ENTRY:
                to_read = count_from(ledgers, acks, Position(*cursor["readPosition"]))
                assert to_read == cursor["numberOfEntriesToRead"]
        before, topic = ledgers, state["managedLedger"]


TRIMS = ["trim", "ack-before-open"]


@pytest.mark.parametrize("name", [f"{name}-{variant}" for name in TRIMS for variant in (0, 1)])
def test_trimming_deletes_what_java_deletes(name):
    events = load(name)["events"]
    config = ManagedLedgerConfig(retention_time_ms=0, retention_size_in_mb=0)
    full: LedgerList | None = None
    deleted = 0
    for event in events:
        if not states(event):
            full = None
            continue
        (state,) = states(event)
        if full is None or event["op"] == "add entries":
            full = ledger_list(state)
        if event["op"] == "trim consumed ledgers":
            marks = {cursor["name"]: Position(*cursor["markDeletePosition"]) for cursor in state["cursors"]}
            plan = plan_trim(full, marks, config, LONG_TIME_MS)
            assert [info.ledger_id for info in plan.remaining] == [each["ledgerId"] for each in state["ledgers"]]
            assert plan.remaining_size == state["totalSize"]
            deleted += len(plan.deletions)
    assert deleted
