"""Which unfinished exports are taken up, and which are removed."""

import json

import pytest

from mledger.snapshot.exports.steps import ABANDONED_MS, ExportPlan, decode_plan, is_abandoned


def plan(*, fingerprint="of-this", started_ms=0, named=False):
    return ExportPlan("name", fingerprint, 0, None, started_ms, (), (), named)


def test_what_has_no_plan_is_abandoned():
    assert is_abandoned(None, "of-this", 0)


@pytest.mark.parametrize(
    ("left", "abandoned"),
    [
        (plan(), True),
        (plan(named=True), False),
        (plan(fingerprint="of-another"), False),
    ],
    ids=["same_request", "its_name_was_given", "another_request"],
)
def test_one_of_the_same_request_is_abandoned_unless_its_name_can_come_again(left, abandoned):
    assert is_abandoned(left, "of-this", 1) is abandoned


def test_any_is_abandoned_after_a_day():
    left = plan(named=True, started_ms=1000)
    assert not is_abandoned(left, "of-this", 1000 + ABANDONED_MS)
    assert is_abandoned(left, "of-this", 1001 + ABANDONED_MS)
    ahead = plan(named=True, started_ms=1001 + ABANDONED_MS)  # by a clock that was set back since
    assert is_abandoned(ahead, "of-this", 1000)


def test_a_plan_of_a_release_that_did_not_say_whether_its_name_was_given_counts_as_derived():
    document = json.loads(plan(named=True).encode())
    del document["named"]
    found = decode_plan(json.dumps(document).encode())
    assert found is not None
    assert not found.named
