"""A simulation hears of errors that the product logs and survives."""

import pytest

from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.runtime.logs.loggers import get_logger
from tests.sim.schedule import Limits
from tests.sim.seams import World, simulated


def _heard(error: Exception) -> list[Exception]:
    world = World("seed")
    with simulated(world, Limits()):
        try:
            raise error
        except Exception as caught:
            get_logger("mledger.bookie").exception("request_failed", error=caught)
    return [each for _, each in world.loop.errors]


@pytest.mark.parametrize("error", [KeyError(7), AssertionError(), ValueError()])
def test_an_error_that_nobody_expects_is_heard(error):
    assert _heard(error) == [error]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BookieUnavailable("bookie-a does not answer")])
def test_a_failing_disk_or_peer_is_expected(error):
    assert _heard(error) == []
