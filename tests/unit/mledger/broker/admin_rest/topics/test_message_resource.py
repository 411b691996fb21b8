"""The place of a message counted from either end."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.message_resource import plan_index


def test_places_count_from_one():
    assert [plan_index("earliest", place, 3) for place in (1, 2, 3)] == [0, 1, 2]
    assert [plan_index("latest", place, 3) for place in (1, 2, 3)] == [2, 1, 0]


@pytest.mark.parametrize(("initial", "place", "status"), [("earliest", 4, 404), ("latest", 0, 404), ("middle", 1, 412)])
def test_a_place_that_is_not_there_is_not_found(initial, place, status):
    with pytest.raises(AdminRefusal) as caught:
        plan_index(initial, place, 3)
    assert caught.value.status == status
