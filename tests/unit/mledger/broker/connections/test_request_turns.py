"""Requests of one connection are served in order, and others have turns in between."""

import asyncio

import pytest

from mledger.broker.connections import request_turns
from mledger.broker.connections.intake import Hold, Intake
from mledger.broker.connections.request_turns import TURN_S, RequestTurns
from mledger.broker.protocol.errors import ProtocolError
from tests.support.aio import run
from tests.support.brokers.recorded_transport import RecordedTransport

BROKEN = ProtocolError("broken")


class TurningConnection:
    """What a connection does with its turns, in order; each request takes `cost_s`."""

    def __init__(self, monkeypatch, cost_s):
        self.now_s, self.cost_s, self.done = 0.0, cost_s, []
        monkeypatch.setattr(request_turns, "steady_s", lambda: self.now_s)
        self.transport = RecordedTransport(self.done)
        self.intake = Intake(self.transport)
        self.turns = RequestTurns(self.serve, self.fail, self.intake)

    @property
    def waiting(self):
        """Whether requests wait for the next turn."""
        return Hold.REQUESTS in self.intake

    def serve(self, request):
        self.now_s += self.cost_s
        self.done.append(request)
        if request == "violation":
            raise BROKEN

    def fail(self, error):
        self.transport.closing = True
        self.done.append(error)

    async def rest(self):
        """Until nothing waits; others have noted their turns."""
        while self.waiting:
            await asyncio.sleep(0)
            self.done.append("-")


@pytest.fixture
def connection(monkeypatch):
    def make(cost_s):
        return TurningConnection(monkeypatch, cost_s)

    return make


def test_what_takes_little_is_served_at_once(connection):
    served = connection(TURN_S / 4)
    served.turns.take([1, 2, 3], None)
    assert (served.done, served.waiting) == ([1, 2, 3], False)


def test_what_takes_long_leaves_turns_to_others(connection):
    async def main():
        served = connection(TURN_S / 2)
        served.turns.take([1, 2, 3, 4, 5], None)
        await served.rest()
        return served.done

    assert run(main()) == [1, 2, "pause", 3, 4, "-", 5, "resume", "-"]


def test_what_comes_meanwhile_is_served_behind(connection):
    async def main():
        served = connection(TURN_S)
        served.turns.take([1, 2], None)
        served.turns.take([3], BROKEN)
        await served.rest()
        return [each for each in served.done if each != "-"]

    assert run(main()) == [1, "pause", 2, 3, BROKEN]


@pytest.mark.parametrize("cost_s", [0, TURN_S])
def test_a_violation_is_the_end(connection, cost_s):
    async def main():
        served = connection(cost_s)
        served.turns.take([1, "violation", 3], None)
        await served.rest()
        return [each for each in served.done if each not in ("-", "pause")]

    assert run(main()) == [1, "violation", BROKEN]


def test_an_error_comes_after_the_requests_before_it(connection):
    served = connection(0)
    served.turns.take([1, 2], BROKEN)
    assert served.done == [1, 2, BROKEN]


def test_of_a_connection_that_is_gone_nothing_is_served(connection):
    async def main():
        served = connection(TURN_S)
        served.turns.take([1, 2], BROKEN)
        served.turns.stop()
        await asyncio.sleep(0)
        return served.done

    assert run(main()) == [1, "pause"]


def test_the_parts_of_a_long_request_are_served_before_what_waits(connection):
    async def main():
        served = connection(TURN_S / 2)
        serve = served.serve

        def split(request):
            if request == "long":
                served.turns.serve_next(iter(["part 1", "part 2", "part 3"]))
            else:
                serve(request)

        served.turns = RequestTurns(split, served.fail, served.intake)
        served.turns.take([1, "long", 2], None)
        await served.rest()
        return served.done

    assert run(main()) == [1, "part 1", "pause", "part 2", "part 3", "-", 2, "resume", "-"]
