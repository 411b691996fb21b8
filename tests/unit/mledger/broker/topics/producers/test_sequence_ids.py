"""Which messages are duplicates, by their producers' sequence ids."""

import pytest

from mledger.broker.topics.producers.sequence_ids import Duplicate, SequenceIds


def test_a_message_sent_again_is_pending_until_it_is_stored():
    ids = SequenceIds()
    assert ids.send("p", 0, -1) is Duplicate.NO
    assert ids.send("p", 0, -1) is Duplicate.PENDING
    ids.store("p", 0)
    assert ids.send("p", 0, -1) is Duplicate.STORED
    assert ids.send("p", 1, -1) is Duplicate.NO


def test_a_batch_counts_to_its_highest_sequence_id():
    ids = SequenceIds()
    assert ids.send("p", 0, 9) is Duplicate.NO
    ids.store("p", 9)
    assert ids.send("p", 9, -1) is Duplicate.STORED
    assert ids.send("p", 10, -1) is Duplicate.NO


def test_producers_do_not_affect_each_other():
    ids = SequenceIds({"p": 5})
    assert ids.send("q", 0, -1) is Duplicate.NO
    assert ids.send("p", 5, -1) is Duplicate.STORED


def test_what_failed_may_be_sent_again():
    ids = SequenceIds({"p": 5})
    ids.send("p", 6, -1)
    ids.fail("p")
    assert ids.send("p", 6, -1) is Duplicate.NO


@pytest.mark.parametrize("stored", [{}, {"p": 5}])
def test_what_did_not_go_to_the_ledger_leaves_what_did_pending(stored):
    ids = SequenceIds(stored)
    ids.send("p", 6, -1)
    before = ids.last_sent("p")
    ids.send("p", 7, -1)
    ids.take_back("p", before)
    assert ids.send("p", 6, -1) is Duplicate.PENDING
    assert ids.send("p", 7, -1) is Duplicate.NO


def test_a_forgotten_producer_begins_anew():
    ids = SequenceIds({"p": 5})
    ids.forget("p")
    assert (ids.last("p"), ids.send("p", 0, -1)) == (-1, Duplicate.NO)


def test_chunks_are_new_until_the_last_one_of_their_message_is_stored():
    ids = SequenceIds({"p": 4})
    assert ids.send_chunk("p", 5) is Duplicate.NO
    assert ids.send("p", 5, 5) is Duplicate.NO
    assert ids.send_chunk("p", 5) is Duplicate.NO
    ids.store("p", 5)
    assert ids.send_chunk("p", 5) is Duplicate.STORED
