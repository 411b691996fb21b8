"""How many partitions a request asks for."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.partition_resource import plan_count

SHADOW = {"partitions": 2, "properties": {"PULSAR.SHADOW_SOURCE": "persistent://a/b/c"}}


def test_a_number_or_a_record_is_taken():
    assert plan_count(3) == (3, {})
    assert plan_count({"partitions": 2, "properties": {"a": "b"}}) == (2, {"a": "b"})


@pytest.mark.parametrize(
    ("body", "status"),
    [(0, 406), (-1, 406), (10**6, 406), (10**12, 400), (None, 406), ({}, 400), ("x", 400), (SHADOW, 501)],
)
def test_other_numbers_are_refused(body, status):
    with pytest.raises(AdminRefusal) as caught:
        plan_count(body)
    assert caught.value.status == status
