"""Sends that a topic does not take, while it takes the others of their run."""

from collections.abc import Sequence

from mledger.broker.protocol.requests import SendRun
from mledger.broker.refusals import NO_TRANSACTIONS, BrokerRefusal
from mledger.broker.topics.producers.producer import Producer
from mledger.pb import PulsarApi_pb2 as pb

TOO_LARGE = "Exceed maximum message size"
"""Pulsar's words."""


def kept(producer: Producer, run: SendRun, size: int, indexes: Sequence[int]) -> tuple[SendRun, int]:
    """The sends at these indexes, and their size; the memory of the others is free again."""
    found = run.only(indexes)
    left = sum(map(len, found.entries))
    producer.connection.published(len(run) - len(found), size - left)
    return found, left


def without_larger(producer: Producer, run: SendRun, size: int, most: int) -> tuple[SendRun, int]:
    """The sends whose entries have at most so many bytes, and their size; the others are refused."""
    larger = [index for index, entry in enumerate(run.entries) if len(entry) > most]
    return _without(producer, run, size, larger, TOO_LARGE)


def without_transactions(producer: Producer, run: SendRun, size: int) -> tuple[SendRun, int]:
    """The sends outside of transactions, and their size; the others are refused."""
    return _without(producer, run, size, run.in_transactions, NO_TRANSACTIONS)


def _without(producer: Producer, run: SendRun, size: int, refused: Sequence[int], why: str) -> tuple[SendRun, int]:
    """The sends at other indexes than `refused`, and their size; these are refused."""
    if not refused:
        return run, size
    for index in refused:
        highest = max(run.sequence_ids[index], run.highest_ids[index])  # by which clients know a batch
        producer.connection.refuse_send(producer, highest, BrokerRefusal(pb.NotAllowedError, why))
    return kept(producer, run, size, sorted(set(range(len(run))).difference(refused)))
