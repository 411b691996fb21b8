"""The frames of messages and receipts."""

from itertools import chain

from mledger.broker.protocol.answers import frame
from mledger.broker.protocol.requests import SendRun
from mledger.broker.topics.consumer import Consumer, OutgoingEntries
from mledger.broker.topics.producer import Producer
from mledger.ledgers.open_ledger import Appended
from mledger.pb import PulsarApi_pb2 as pb

_WORD = (1 << 64) - 1


def receipt_frames(producer: Producer, run: SendRun, stored: Appended) -> bytes:
    """A SEND_RECEIPT for each send."""
    frames = []
    places = chain.from_iterable(where.positions() for where in stored)
    for sequence, highest, (ledger_id, entry_id) in zip(run.sequence_ids, run.highest_ids, places, strict=True):
        command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
        receipt = command.send_receipt
        receipt.producer_id = producer.id
        receipt.sequence_id = sequence & _WORD
        receipt.highest_sequence_id = highest & _WORD
        receipt.message_id.ledgerId, receipt.message_id.entryId = ledger_id, entry_id
        frames.append(frame(command))
    return b"".join(frames)


def message_frames(consumer: Consumer, outgoing: OutgoingEntries) -> list[bytes]:
    """A MESSAGE for each entry: its command, then the entry."""
    frames: list[bytes] = []
    epoch, redeliveries = consumer.dispatch.epoch, outgoing.redeliveries
    for index, (entry_id, entry) in enumerate(zip(outgoing.entry_ids, outgoing.entries, strict=True)):
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        message = command.message
        message.consumer_id = consumer.id
        message.message_id.ledgerId, message.message_id.entryId = outgoing.ledger_id, entry_id
        if redeliveries is not None and redeliveries[index]:
            message.redelivery_count = redeliveries[index]
        message.ack_set.extend(outgoing.ack_sets.get(entry_id, ()))
        if epoch:
            message.consumer_epoch = epoch
        data = command.SerializeToString()
        frames.append((len(data) + 4 + len(entry)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
        frames.append(entry)
    return frames
