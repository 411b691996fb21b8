"""Consumers whose connections take no more now: D9."""

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.writability import StuffedConsumers, permits_of


def consumer(name, permits=1, *, writable=True):
    made = DispatchConsumer(name, name)
    made.permits, made.writable = permits, writable
    return made


def test_one_that_is_not_writable_counts_as_one_permit():
    assert permits_of([consumer("a", 7), consumer("b", 5, writable=False)], 100) == (8, True)


def test_counting_ends_at_what_is_wanted_once_one_is_writable():
    group = [consumer("a", 5, writable=False), consumer("b", 3), consumer("c", 4)]
    assert permits_of(group, 1) == (4, True)


def test_one_that_was_sent_an_entry_while_not_writable_is_not_available():
    stuffed, slow = StuffedConsumers(), consumer("a", 5, writable=False)
    assert permits_of([slow], 10) == (1, False)
    stuffed.sent(slow)
    assert permits_of([slow], 10) == (0, False)


def test_one_is_named_once_when_it_is_writable_again():
    stuffed, slow, other = StuffedConsumers(), consumer("a", writable=False), consumer("b", writable=False)
    for each in (slow, other, consumer("c")):
        stuffed.sent(each)
    assert stuffed.writable_again() == []
    slow.writable = True
    assert stuffed.writable_again() == [slow]
    assert stuffed.writable_again() == []


def test_one_that_is_gone_is_not_named():
    stuffed, slow = StuffedConsumers(), consumer("a", writable=False)
    stuffed.sent(slow)
    stuffed.forget(slow)
    slow.writable = True
    assert stuffed.writable_again() == []
