"""Which producer gets a topic, by its access mode."""

import pytest

from mledger.broker.topics.producers.access import MOST_EPOCH, NO_EPOCH, AccessMode, Admission, plan_access

FREE = {"producers": 0, "exclusive": "", "waiting": 0, "given_epoch": NO_EPOCH, "topic_epoch": NO_EPOCH}
SHARED, EXCLUSIVE = AccessMode.SHARED, AccessMode.EXCLUSIVE
WAIT, FENCING = AccessMode.WAIT_FOR_EXCLUSIVE, AccessMode.EXCLUSIVE_WITH_FENCING


@pytest.mark.parametrize(
    ("mode", "changes", "admission"),
    [
        (SHARED, {}, Admission.SHARED),
        (SHARED, {"producers": 3}, Admission.SHARED),
        (SHARED, {"producers": 1, "exclusive": "p"}, Admission.BUSY),
        (SHARED, {"producers": 1, "waiting": 1}, Admission.BUSY),
        (EXCLUSIVE, {}, Admission.EXCLUSIVE),
        (EXCLUSIVE, {"producers": 1}, Admission.FENCED),
        (EXCLUSIVE, {"producers": 1, "exclusive": "p"}, Admission.FENCED),
        (EXCLUSIVE, {"waiting": 1}, Admission.FENCED),
        (EXCLUSIVE, {"given_epoch": 2, "topic_epoch": 3}, Admission.FENCED),
        (EXCLUSIVE, {"given_epoch": 3, "topic_epoch": 3}, Admission.EXCLUSIVE),
        (WAIT, {}, Admission.EXCLUSIVE),
        (WAIT, {"producers": 1}, Admission.WAIT),
        (WAIT, {"given_epoch": 2, "topic_epoch": 3}, Admission.FENCED),
        (FENCING, {}, Admission.FENCE_OTHERS),
        (FENCING, {"producers": 1, "exclusive": "p"}, Admission.FENCE_OTHERS),
        (FENCING, {"given_epoch": 2, "topic_epoch": 3}, Admission.FENCED),
        (EXCLUSIVE, {"given_epoch": MOST_EPOCH}, Admission.EXCLUSIVE),
        (EXCLUSIVE, {"given_epoch": MOST_EPOCH + 1}, Admission.FENCED),
        (WAIT, {"given_epoch": MOST_EPOCH + 1}, Admission.FENCED),
        (FENCING, {"given_epoch": MOST_EPOCH + 1}, Admission.FENCED),
    ],
)
def test_admission(mode, changes, admission):
    assert plan_access(mode, **(FREE | changes)).admission is admission


def test_exclusive_access_raises_the_epoch():
    assert plan_access(EXCLUSIVE, **(FREE | {"topic_epoch": 4})).epoch == 5


def test_a_producer_that_reconnects_keeps_its_epoch():
    assert plan_access(EXCLUSIVE, **(FREE | {"given_epoch": 4, "topic_epoch": 4})).epoch == 4


def test_a_refusal_says_why():
    assert "2 shared producers" in plan_access(EXCLUSIVE, **(FREE | {"producers": 2})).reason
