"""Who has the chunks of unfinished messages: D2."""

from mledger.broker.dispatch.chunk_owners import MOST, ChunkOwners
from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.facts import MessageChunk
from mledger.metastore.records.position import Position

A, B = DispatchConsumer("a", "a"), DispatchConsumer("b", "b")


def chunk(number, uuid="u", of=3):
    return MessageChunk(uuid, number, number == of - 1)


def at(entry_id):
    return Position(7, entry_id)


def begun(*numbers, consumer=A):
    owners = ChunkOwners()
    for number in numbers:
        owners.went(chunk(number), at(number), consumer)
    return owners


def test_the_next_chunk_goes_where_the_one_before_it_went():
    assert begun(0).owner(chunk(1)) is A


def test_a_first_chunk_goes_to_whoever_has_a_turn():
    assert begun(0).owner(chunk(0)) is None


def test_a_chunk_goes_to_nobody_before_the_one_before_it():
    assert begun(0).owner(chunk(2)) is None


def test_messages_are_told_apart():
    assert begun(0).owner(chunk(1, "other")) is None


def test_a_message_is_forgotten_with_its_last_chunk():
    assert len(begun(0, 1, 2)) == 0


def test_a_message_begins_anew_once_a_chunk_of_it_was_given_back():
    owners = begun(0, 1)
    owners.taken_back(A, [at(9), at(1)])
    assert owners.owner(chunk(2)) is None


def test_a_message_goes_on_when_others_are_given_back():
    owners = begun(0, 1)
    owners.taken_back(A, [at(9)])
    owners.taken_back(B, None)
    assert owners.owner(chunk(2)) is A


def test_a_message_begins_anew_without_its_consumer():
    owners = begun(0, 1)
    owners.taken_back(A, None)
    owners.went(chunk(0), at(0), B)
    assert (owners.owner(chunk(1)), owners.owner(chunk(2))) == (B, None)


def test_unfinished_messages_are_forgotten_from_the_oldest():
    owners = begun(0)
    for number in range(MOST):
        owners.went(chunk(0, f"u{number}"), at(number), B)
    assert len(owners) == MOST
    assert owners.owner(chunk(1)) is None
    assert owners.owner(chunk(1, "u0")) is B
