"""Message ids in requests and answers."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.message_position import (
    MOST_IN_BATCH,
    MessagePlace,
    message_id,
    plan_ack_set,
    plan_place,
)
from mledger.cursors.acks.entry_bits import count_words
from mledger.cursors.positions import EARLIEST, LATEST
from mledger.metastore.records.position import Position


def test_a_place_is_a_word_or_a_message_id():
    assert plan_place("earliest") == MessagePlace(EARLIEST)
    assert plan_place({"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}) == MessagePlace(LATEST)
    body = {"ledgerId": 3, "entryId": 4, "batchIndex": 1, "excluded": True, "properties": {"a": "b"}}
    assert plan_place(body) == MessagePlace(Position(3, 4), 1, True, {"a": "b"})


@pytest.mark.parametrize("body", ["soon", 3, None, {"ledgerId": "x"}, {"ledgerId": 2**63}, {"properties": {"a": [1]}}])
def test_what_is_no_place_is_a_bad_request(body):
    with pytest.raises(AdminRefusal) as caught:
        plan_place(body)
    assert caught.value.status == 400


@pytest.mark.parametrize("messages", [1, 2, 63, 64, 65, 130])
def test_an_ack_set_has_the_messages_from_the_first_wanted_on(messages):
    for first in range(messages + 2):
        words = plan_ack_set(first, messages)
        if 0 < first < messages:
            assert count_words(words) == messages - first
            assert not any(words[index // 64] >> index % 64 & 1 for index in range(first))
            assert all(-(1 << 63) <= word < 1 << 63 for word in words)
        else:
            assert words == ()


def test_a_place_in_a_batch_that_says_more_messages_than_one_has_is_refused():
    assert count_words(plan_ack_set(1, MOST_IN_BATCH)) == MOST_IN_BATCH - 1
    with pytest.raises(AdminRefusal) as caught:
        plan_ack_set(1, 2**31 - 1)
    assert caught.value.status == 412


def test_a_message_id_is_pulsars():
    expected = {"ledgerId": 3, "entryId": 4, "partitionIndex": 1, "batchIndex": 2, "batchSize": 0}
    assert message_id(Position(3, 4), 1, 2) == expected
