"""A history in which everything holds passes; each violation that is planted in one is found."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clients.checker import Fault, check_run
from tests.clients.history import history_of
from tests.clients.scenario import Scenario
from tests.clients.simulated_run import BATCH, SimulatedRun, good_run

few = settings(max_examples=30)  # each is a whole run
TYPES = ("exclusive", "failover", "shared", "key_shared")


@st.composite
def runs(draw, types=TYPES, acks=("individual", "cumulative", "batch_index"), **fixed):
    """A scenario and the events of a run of it in which all went well."""
    kind = draw(st.sampled_from(types))
    ack = draw(st.sampled_from([each for each in acks if each != "cumulative" or kind in ("exclusive", "failover")]))
    scenario = Scenario(
        "java",
        kind,
        ack=ack,
        batching=ack == "batch_index" or draw(st.booleans()),
        receipts=draw(st.booleans()),
        redelivery="none" if ack == "cumulative" else draw(st.sampled_from(["none", "negative"])),
        seek=draw(st.sampled_from(["none", "earliest", "id"])),
        disturbance=draw(st.sampled_from(["none", "broker killed"])),
    )
    scenario = replace(scenario, **fixed)
    return scenario, good_run(scenario, draw(st.integers(20, 60)), draw(st.randoms(use_true_random=False)))


def faults(scenario, run):
    return {finding.fault for finding in check_run(scenario, history_of(run.events, run.disturbed))}


def where(events, **wanted):
    """The places of the events with these fields."""
    return [at for at, each in enumerate(events) if all(each.get(name) == value for name, value in wanted.items())]


@few
@given(runs())
def test_a_good_run_passes(drawn):
    scenario, run = drawn
    assert check_run(scenario, history_of(run.events, run.disturbed)) == []


@few
@given(runs(seek="none"), st.data())
def test_a_lost_message_is_found(drawn, data):
    scenario, run = drawn
    number = data.draw(st.sampled_from([each["number"] for each in run.events if each["event"] == "sent"]))
    run.events = [
        each
        for each in run.events
        if each.get("number") != number or each["event"] not in ("received", "ack", "acked", "negative")
    ]
    if number >= 0:
        assert Fault.LOST in faults(scenario, run)


@few
@given(runs(), st.data())
def test_an_altered_message_is_found(drawn, data):
    scenario, run = drawn
    at = data.draw(st.sampled_from(where(run.events, event="received")))
    run.events[at] |= data.draw(st.sampled_from([{"intact": False}, {"key": "other"}, {"producer": 7}]))
    assert Fault.ALTERED in faults(scenario, run)


@few
@given(runs(), st.data())
def test_a_message_that_nobody_sent_is_found(drawn, data):
    scenario, run = drawn
    at = data.draw(st.sampled_from(where(run.events, event="received")))
    run.events[at] |= {"number": 100_000}
    assert Fault.MADE_UP in faults(scenario, run)


@few
@given(runs(), st.data())
def test_a_message_at_another_place_than_its_producer_was_told_is_found(drawn, data):
    scenario, run = drawn
    number = data.draw(st.sampled_from(run.numbers))
    run.events[where(run.events, event="sent", number=number)[0]] |= {"id": [1, 9999, 0, -1]}
    assert Fault.ELSEWHERE in faults(scenario, run)


@few
@given(runs(disturbance="none", seek="none"), st.data())
def test_a_message_that_is_stored_twice_is_found(drawn, data):
    scenario, run = drawn
    resumed = where(run.events, event="received", phase="resumed")
    at = data.draw(st.sampled_from([each for each in resumed if run.events[each]["number"] >= 0]))  # no last one
    run.events.insert(at + 1, {**run.events[at], "id": [1, 9999, 0, -1]})
    assert Fault.STORED_TWICE in faults(scenario, run)


@few
@given(runs(disturbance="none", redelivery="none"), st.data())
def test_a_message_that_comes_again_unasked_is_found(drawn, data):
    scenario, run = drawn
    at = data.draw(st.sampled_from(where(run.events, event="received")))
    run.events.insert(at + 1, dict(run.events[at]))
    assert Fault.REPEATED in faults(scenario, run)


@few
@given(runs(types=("exclusive", "failover", "key_shared"), disturbance="none"), st.data())
def test_messages_in_the_wrong_order_are_found(drawn, data):
    scenario, run = drawn
    receipts = where(run.events, event="received", phase="first", redelivery=0)
    first = sorted({run.events[at]["number"]: at for at in reversed(receipts)}.values())  # not what came again
    lane = "producer" if scenario.type != "key_shared" else "key"
    later = [
        (one, other)
        for one, other in pairwise(first)
        if run.events[one][lane] == run.events[other][lane]
        and run.events[one]["producer"] == run.events[other]["producer"]
        and run.events[one]["number"] < run.events[other]["number"]
    ]
    if later:
        one, other = data.draw(st.sampled_from(later))
        run.events[one], run.events[other] = run.events[other], run.events[one]
        assert Fault.OUT_OF_ORDER in faults(scenario, run)


@few
@given(runs(types=("shared", "key_shared"), disturbance="none"), st.data())
def test_a_delayed_message_that_is_early_is_found(drawn, data):
    scenario, run = drawn
    at = data.draw(st.sampled_from(where(run.events, event="received", phase="first")))
    number = run.events[at]["number"]
    run.events[where(run.events, event="send", number=number)[0]] |= {"delay_ms": 10_000_000}
    assert Fault.EARLY in faults(scenario, run)


@few
@given(runs(acks=("individual", "batch_index"), receipts=True, seek="none"), st.data())
def test_a_message_that_comes_again_after_its_answered_acknowledgement_is_found(drawn, data):
    scenario, run = drawn
    whole = [each for each in run.acknowledged() if run.is_whole(scenario, each["id"])]
    if whole:
        again = data.draw(st.sampled_from(whole))
        at = where(run.events, event="received", phase="resumed")[0]
        run.events.insert(at, run.receipt(again["number"], "resumed"))
        assert Fault.ACK_LOST in faults(scenario, run)


@few
@given(runs(types=("exclusive", "failover"), acks=("cumulative",), receipts=True, seek="none"), st.data())
def test_a_message_that_comes_again_below_an_answered_cumulative_acknowledgement_is_found(drawn, data):
    scenario, run = drawn
    acked = run.acknowledged()
    below = [each for each in run.numbers if any(run.place(each)[:2] < ack["id"][:2] for ack in acked)]
    if below:
        at = where(run.events, event="received", phase="resumed")[0]
        run.events.insert(at, run.receipt(data.draw(st.sampled_from(below)), "resumed"))
        assert Fault.ACK_LOST in faults(scenario, run)


@few
@given(runs(acks=("individual", "batch_index"), receipts=False, seek="none", disturbance="none", batching=False))
def test_acknowledgements_without_answers_hold_once_the_consumer_has_closed_in_order(drawn):
    scenario, run = drawn
    for acked in run.acknowledged("ack")[:1]:
        at = where(run.events, event="received", phase="resumed")[0]
        run.events.insert(at, run.receipt(acked["number"], "resumed"))
        assert Fault.ACK_LOST in faults(replace(scenario, ack="individual"), run)


@few
@given(runs(acks=("individual", "batch_index"), receipts=True, seek="none", redelivery="none", batching=False))
def test_a_message_acknowledged_before_the_disturbance_must_not_come_again_after_it(drawn):
    scenario, run = drawn
    scenario = replace(scenario, ack="individual", disturbance="broker killed")
    for acked in run.acknowledged()[:1]:
        run.disturbed = [(acked["at"] + 0.0001, acked["at"] + 0.0002)]
        last = where(run.events, event="produced")[0]
        run.events.insert(last, run.receipt(acked["number"], "first", at=run.events[last]["at"]))
        assert Fault.ACK_LOST in faults(scenario, run)


@few
@given(runs(acks=("individual", "batch_index"), receipts=True, seek="none", redelivery="none", batching=False))
def test_a_message_acknowledged_while_its_consumer_was_cut_off_may_come_again(drawn):
    scenario, run = drawn
    scenario = replace(scenario, ack="individual", disturbance="connection cut")
    for acked in run.acknowledged()[:1]:
        at = run.events.index(acked)
        run.disturbed = [(acked["at"] - 0.0001, run.events[-1]["at"])]
        run.events.insert(at + 1, run.receipt(acked["number"], "first", at=acked["at"]))
        assert Fault.ACK_LOST not in faults(scenario, run)


def asked_for_again(*, later_first: bool):
    """A run of a consumer that asks for everything while message 0 is on its way, and receives that twice."""
    scenario, run = Scenario("java", "key_shared", receipts=True, redelivery="all"), SimulatedRun()
    run.places = {0: [5, 0, 0, -1], 1: [5, 1, 0, -1]}
    run.say("subscribed", consumer=0, phase="first")
    run.send(0)
    run.say("redeliver", consumer=0)
    run.send(1)
    for number in (1, 0) if later_first else (0, 1):
        run.receive(number, "first")
        run.acknowledge(scenario, number)
    run.receive(0, "first", redelivery=1)
    return scenario, run


def test_what_was_on_its_way_when_its_consumer_asked_for_everything_may_come_again():
    assert Fault.ACK_LOST not in faults(*asked_for_again(later_first=False))


def test_what_comes_after_a_message_that_was_sent_later_than_the_request_was_not_on_its_way():
    assert Fault.ACK_LOST in faults(*asked_for_again(later_first=True))


def received_after_a_request(*numbers):
    """The faults of a run in which the only consumer receives 0, asks for everything, and receives these of 0 to 5."""
    scenario, run = Scenario("java", "exclusive", redelivery="all"), SimulatedRun()
    run.places = {number: [5, number, 0, -1] for number in range(6)}
    run.say("subscribed", consumer=0, phase="first")
    for number in run.places:
        run.send(number)
    run.receive(0, "first")
    run.say("redeliver", consumer=0)
    for number in numbers:
        run.receive(number, "first")
    return faults(scenario, run)


def test_one_message_that_comes_again_may_overtake_what_a_client_asked_for():
    assert Fault.OUT_OF_ORDER not in received_after_a_request(4, 0, 1, 2, 3, 4, 5)


def test_no_second_message_may_overtake_what_a_client_asked_for():
    assert Fault.OUT_OF_ORDER in received_after_a_request(4, 5, 0, 1, 2, 3, 4, 5)


def test_what_overtakes_and_does_not_come_again_is_found():
    assert Fault.OUT_OF_ORDER in received_after_a_request(4, 0, 1, 2, 3, 5)


@few
@given(runs(acks=("individual", "batch_index"), seek="none"), st.data())
def test_a_message_that_was_not_acknowledged_and_does_not_come_again_is_found(drawn, data):
    scenario, run = drawn
    never = [each for each in run.left if each not in {ack["number"] for ack in run.acknowledged("ack")}]
    if never and scenario.ack != "cumulative":
        gone = data.draw(st.sampled_from(never))
        run.events = [each for each in run.events if (each.get("number"), each.get("phase")) != (gone, "resumed")]
        assert Fault.NOT_REDELIVERED in faults(scenario, run)


@few
@given(runs(types=("shared", "key_shared"), disturbance="none"), st.data())
def test_a_wrong_redelivery_count_is_found(drawn, data):
    scenario, run = drawn
    at = data.draw(st.sampled_from(where(run.events, event="received", phase="first")))
    run.events[at] |= {"redelivery": run.events[at]["redelivery"] + BATCH + 1}
    assert Fault.WRONG_COUNT in faults(scenario, run)


@few
@given(runs(types=("shared", "key_shared"), disturbance="none", redelivery="negative", batching=False), st.data())
def test_a_redelivery_that_is_not_counted_is_found(drawn, data):
    scenario, run = drawn
    again = where(run.events, event="received", phase="first", redelivery=1)
    if again:
        run.events[data.draw(st.sampled_from(again))] |= {"redelivery": 0}
        assert Fault.WRONG_COUNT in faults(replace(scenario, ack="individual"), run)


@few
@given(runs(seek="earliest"), st.data())
def test_a_message_that_a_seek_does_not_bring_back_is_found(drawn, data):
    scenario, run = drawn
    gone = data.draw(st.sampled_from(run.numbers))
    run.events = [each for each in run.events if (each.get("number"), each.get("phase")) != (gone, "sought")]
    assert Fault.NOT_SOUGHT in faults(scenario, run)


@few
@given(runs(seek="id"), st.data())
def test_a_message_before_the_target_of_a_seek_is_found(drawn, data):
    scenario, run = drawn
    target = run.events[where(run.events, event="seek")[0]]["position"]
    before = [each for each in run.numbers if run.place(each)[:2] < target]
    if before:
        at = where(run.events, event="received", phase="sought")
        if at:
            run.events.insert(at[0], run.receipt(data.draw(st.sampled_from(before)), "sought"))
            assert Fault.BEFORE_TARGET in faults(scenario, run)


@few
@given(runs())
def test_a_run_that_failed_or_did_not_end_is_found(drawn):
    scenario, run = drawn
    assert run.events.pop()["event"] == "ended"
    assert Fault.UNFINISHED in faults(scenario, run)
    run.events.append({"event": "failed", "at": run.events[-1]["at"], "error": "so it is"})
    assert Fault.FAILED in faults(scenario, run)
