"""A connection reads unless a reason holds it back."""

import pytest

from mledger.broker.connections.intake import Hold, Intake
from tests.support.brokers.recorded_transport import RecordedTransport


@pytest.fixture
def transport():
    return RecordedTransport([])


@pytest.fixture
def intake(transport):
    return Intake(transport)


def test_a_reason_stops_it_until_it_is_gone(transport, intake):
    intake.hold(Hold.PENDING)
    assert (transport.done, Hold.PENDING in intake) == (["pause"], True)
    intake.release(Hold.PENDING)
    assert (transport.done, Hold.PENDING in intake) == (["pause", "resume"], False)


def test_it_goes_on_when_the_last_reason_is_gone(transport, intake):
    intake.hold(Hold.PENDING)
    intake.hold(Hold.RATE)
    intake.release(Hold.PENDING)
    assert transport.done == ["pause"]
    intake.release(Hold.RATE)
    assert transport.done == ["pause", "resume"]


def test_a_reason_given_twice_is_gone_at_once(transport, intake):
    intake.hold(Hold.TURN)
    intake.hold(Hold.TURN)
    intake.release(Hold.TURN)
    assert transport.done == ["pause", "resume"]


def test_a_reason_that_was_not_given_may_be_released(transport, intake):
    intake.release(Hold.RATE)
    intake.hold(Hold.TURN)
    intake.release(Hold.RATE)
    assert transport.done == ["pause"]


def test_a_connection_that_closes_is_left_alone(transport, intake):
    transport.closing = True
    intake.hold(Hold.TURN)
    intake.release(Hold.TURN)
    assert transport.done == []


@pytest.mark.parametrize("reason", Hold)
def test_a_client_that_takes_no_answers_is_not_held_back_by_the_broker(intake, reason):
    assert not intake.held_back
    intake.hold(Hold.ANSWERS)
    intake.hold(reason)
    assert intake.held_back is (reason is not Hold.ANSWERS)
