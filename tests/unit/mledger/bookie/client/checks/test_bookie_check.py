"""The problems of a bookie, by what was found out about it."""

import pytest
from msgspec.structs import replace

from mledger.bookie.client.checks.bookie_check import BookieFindings, HeldLedgers, Severity, plan_problems
from mledger.bookie.client.connections.bookie_info import BookieInfo
from mledger.bookie.errors import Code
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.cookies import Cookie

COOKIE = Cookie("b:1", "/j", ("/d",), "cluster")
WELL = BookieFindings(
    "b:1",
    "cluster",
    BookieRegistration("b:1", "b", 1),
    COOKIE,
    held=HeldLedgers(3, 1, (7, 0)),
    read=Code.OK,
    info=BookieInfo(100, 50),
    clock_off_s=0.4,
)


def test_a_sound_bookie_has_no_problems():
    assert plan_problems(WELL) == ()
    assert plan_problems(replace(WELL, held=HeldLedgers(), read=Code.NO_LEDGER)) == ()
    assert plan_problems(replace(WELL, info=None, clock_off_s=None, cookie=replace(COOKIE, instance_id=None))) == ()


@pytest.mark.parametrize(
    ("change", "severity", "said"),
    [
        ({"registration": None, "read": None}, Severity.AWAY, "not registered"),
        ({"unreachable": "refused", "read": None}, Severity.AWAY, "refused"),
        ({"cookie": None}, Severity.ERROR, "no cookie"),
        ({"cookie_error": "its text is cut off"}, Severity.ERROR, "cut off"),
        ({"cookie": Cookie("c:1", "/j", ("/d",), "cluster")}, Severity.ERROR, "that of c:1"),
        ({"cookie": Cookie("b:1", "/j", ("/d",), "other")}, Severity.ERROR, "of the cluster other"),
        ({"read": Code.NO_ENTRY}, Severity.ERROR, "ledger 7, entry 0 with error 2"),
        ({"held": HeldLedgers()}, Severity.ERROR, "a ledger that is not there with error 0"),
        ({"registration": BookieRegistration("b:1", "b", 1, read_only=True)}, Severity.WARNING, "read-only"),
        ({"info": BookieInfo(1000, 1)}, Severity.WARNING, "used to 99.9%"),
        ({"clock_off_s": -61.0}, Severity.WARNING, "-61 s off"),
    ],
)
def test_each_problem_is_reported(change, severity, said):
    (problem,) = plan_problems(replace(WELL, **change))
    assert (problem.severity, said in problem.what) == (severity, True), problem


def test_the_worst_comes_first():
    found = replace(WELL, unreachable="refused", read=None, cookie=None, clock_off_s=99.0)
    assert [each.severity for each in plan_problems(found)] == [Severity.AWAY, Severity.ERROR, Severity.WARNING]
