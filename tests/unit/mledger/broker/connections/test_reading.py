"""A connection reads unless a reason holds it back."""

import pytest

from mledger.broker.connections.reading import Held, Reading
from tests.support.recorded_transport import RecordedTransport


@pytest.fixture
def transport():
    return RecordedTransport([])


@pytest.fixture
def reading(transport):
    return Reading(transport)


def test_a_reason_stops_the_reading_until_it_is_gone(transport, reading):
    reading.hold(Held.PENDING)
    assert (transport.done, Held.PENDING in reading) == (["pause"], True)
    reading.release(Held.PENDING)
    assert (transport.done, Held.PENDING in reading) == (["pause", "resume"], False)


def test_it_goes_on_when_the_last_reason_is_gone(transport, reading):
    reading.hold(Held.PENDING)
    reading.hold(Held.RATE)
    reading.release(Held.PENDING)
    assert transport.done == ["pause"]
    reading.release(Held.RATE)
    assert transport.done == ["pause", "resume"]


def test_a_reason_given_twice_is_gone_at_once(transport, reading):
    reading.hold(Held.TURN)
    reading.hold(Held.TURN)
    reading.release(Held.TURN)
    assert transport.done == ["pause", "resume"]


def test_a_reason_that_was_not_given_may_be_released(transport, reading):
    reading.release(Held.RATE)
    reading.hold(Held.TURN)
    reading.release(Held.RATE)
    assert transport.done == ["pause"]


def test_a_connection_that_closes_is_left_alone(transport, reading):
    transport.closing = True
    reading.hold(Held.TURN)
    reading.release(Held.TURN)
    assert transport.done == []


@pytest.mark.parametrize("reason", Held)
def test_a_client_that_takes_no_answers_is_not_held_back_by_the_broker(reading, reason):
    assert not reading.held_back
    reading.hold(Held.ANSWERS)
    reading.hold(reason)
    assert reading.held_back is (reason is not Held.ANSWERS)
