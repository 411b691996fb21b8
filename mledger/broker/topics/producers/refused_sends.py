"""Sends that a topic does not take, while it takes the others of their run."""

from collections.abc import Sequence

from mledger.broker.protocol.entry_facts import metadata_of
from mledger.broker.protocol.requests import SendRun
from mledger.broker.refusals import NO_TRANSACTIONS, BrokerRefusal, Code
from mledger.broker.topics.producers.producer import Producer
from mledger.pb import PulsarApi_pb2 as pb

TOO_LARGE = "Exceed maximum message size"
NOT_ENCRYPTED = "Messages must be encrypted"
"""Pulsar's words."""


def kept(producer: Producer, run: SendRun, size: int, indexes: Sequence[int]) -> tuple[SendRun, int]:
    """The sends at these indexes, and their size; the memory of the others is free again."""
    found = run.only(indexes)
    left = sum(map(len, found.entries))
    producer.connection.published(len(run) - len(found), size - left)
    return found, left


def without_larger(producer: Producer, run: SendRun, size: int, most: int) -> tuple[SendRun, int]:
    """The sends whose entries have at most so many bytes, and their size; the others are refused.

    As in Pulsar chunks are taken: their clients make them as large as the broker allows, whatever the topic does.
    """
    chunks = {index for index, send in run.unusual.items() if send.is_chunk}
    larger = [index for index, entry in enumerate(run.entries) if len(entry) > most and index not in chunks]
    return _without(producer, run, size, larger, TOO_LARGE)


def without_later(producer: Producer, run: SendRun, size: int, most_ms: int) -> tuple[SendRun, int]:
    """The sends that are to be delivered at most so long after they were published, and their size; as in Pulsar."""
    later = [index for index, entry in enumerate(run.entries) if _delay_ms(entry) > most_ms]
    return _without(producer, run, size, later, f"Exceeds max allowed delivery delay of {most_ms} milliseconds")


def _delay_ms(entry: bytes) -> int:
    metadata = metadata_of(entry)
    if metadata is None or not metadata.HasField("deliver_at_time"):
        return 0
    return metadata.deliver_at_time - metadata.publish_time


def without_transactions(producer: Producer, run: SendRun, size: int) -> tuple[SendRun, int]:
    """The sends outside of transactions, and their size; the others are refused."""
    return _without(producer, run, size, run.in_transactions, NO_TRANSACTIONS)


def without_plain(producer: Producer, run: SendRun, size: int) -> tuple[SendRun, int]:
    """The sends that are encrypted, and their size; the others are refused, whatever their producer says it does."""
    plain = [index for index, entry in enumerate(run.entries) if not _is_encrypted(entry)]
    return _without(producer, run, size, plain, NOT_ENCRYPTED, pb.MetadataError)


def _is_encrypted(entry: bytes) -> bool:
    metadata = metadata_of(entry)
    return metadata is not None and bool(metadata.encryption_keys)


def _without(
    producer: Producer, run: SendRun, size: int, refused: Sequence[int], why: str, code: Code = pb.NotAllowedError
) -> tuple[SendRun, int]:
    """The sends at other indexes than `refused`, and their size; these are refused."""
    if not refused:
        return run, size
    for index in refused:
        highest = max(run.sequence_ids[index], run.highest_ids[index])  # by which clients know a batch
        producer.connection.refuse_send(producer, highest, BrokerRefusal(code, why))
    return kept(producer, run, size, sorted(set(range(len(run))).difference(refused)))
