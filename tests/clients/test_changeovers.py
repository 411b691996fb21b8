"""What may come again when the active consumer of a failover subscription changes after a seek, and what may not."""

import pytest

from tests.clients.checker import Fault, check_run
from tests.clients.history import history_of
from tests.clients.scenario import Scenario
from tests.clients.simulated_run import SimulatedRun

SCENARIO = Scenario("go", "failover", receipts=True, seek="earliest")
CHANGE = ["0 passive", "1 active"]


def faults(*events, scenario=SCENARIO):
    """The faults of a run of four messages in which this happens after the seek: `0 gets 2`, `0 acks 2`, `1 active`.

    What was not acknowledged at the end does not come again, which is another story.
    """
    run = SimulatedRun()
    run.places = {number: [5, number, 0, -1] for number in range(4)}
    run.say("subscribed", consumer=0, phase="first")
    run.say("active", consumer=0, partition=0, active=True)
    for number in run.places:
        run.send(number)
        run.receive(number, "first")
        run.acknowledge(scenario, number)
    run.say("produced")
    run.say("seek", kind="earliest")
    for event in events:
        who, what, *number = event.split()
        if what == "gets":
            run.events.append(run.receipt(int(number[0]), "sought") | {"consumer": int(who)})
        elif what == "acks":
            for answered in ("ack", "acked"):
                place = run.place(int(number[0]))
                run.say(answered, consumer=int(who), number=int(number[0]), id=place, cumulative=False)
        else:
            run.say("active", consumer=int(who), partition=int(*number), active=what == "active")
    run.say("closed", consumer=0)
    run.say("ended")
    return {finding.fault for finding in check_run(scenario, history_of(run.events))} - {Fault.NOT_REDELIVERED}


@pytest.mark.parametrize(
    "events",
    [
        ["0 gets 0", "0 acks 0", *CHANGE, "1 gets 1", "1 gets 2", "1 gets 3"],
        ["0 gets 0", "0 acks 0", "0 gets 1", *CHANGE, "1 gets 1", "0 gets 2", "1 gets 2", "0 gets 3", "1 gets 3"],
        ["0 gets 0", *CHANGE, "0 acks 0", "1 gets 0", "1 gets 1", "1 gets 2", "1 gets 3"],
        ["0 active", *CHANGE, "1 gets 0", "1 acks 0", "0 gets 0", "1 gets 1", "1 gets 2", "1 gets 3"],
    ],
    ids=["none twice", "what the old one holds", "acknowledged after the change", "the old one is slow"],
)
def test_the_new_active_consumer_gets_what_the_old_one_has_not_acknowledged(events):
    assert faults(*events) == set()


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (["0 gets 0", "1 gets 0"], Fault.REPEATED),
        (["0 gets 0", "1 active", "1 gets 0"], Fault.REPEATED),
        (["0 gets 0", "0 passive", "1 gets 0"], Fault.REPEATED),
        (["0 active", "1 passive", "0 gets 0", "1 gets 0"], Fault.REPEATED),
        (["0 gets 0", "0 gets 0", *CHANGE], Fault.REPEATED),
        (["0 gets 0", *CHANGE, "1 gets 0", "1 gets 0"], Fault.REPEATED),
        (["0 gets 0", "1 gets 0", *CHANGE], Fault.REPEATED),
        (["0 gets 0", *CHANGE, "2 gets 0"], Fault.REPEATED),
        (["0 gets 0", "0 acks 0", *CHANGE, "1 gets 0"], Fault.ACK_LOST),
        (["0 gets 1", *CHANGE, "1 gets 1", "1 acks 1", "1 gets 1"], Fault.ACK_LOST),
    ],
)
def test_whatever_else_comes_again_is_found(events, found):
    assert found in faults(*events)


def test_a_change_in_another_partition_explains_nothing():
    assert Fault.REPEATED in faults("0 gets 0", "0 passive 1", "1 active 1", "1 gets 0")


def test_a_subscription_of_another_type_has_no_active_consumer():
    assert Fault.REPEATED in faults("0 gets 0", *CHANGE, "1 gets 0", scenario=Scenario("go", "shared", seek="earliest"))
