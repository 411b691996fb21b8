"""What a client asks for, as `receiver` takes it from the connection's bytes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mledger.broker.protocol.commands import Command
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.varints import signed
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import CommandSend, MessageIdData

NO_SEQUENCE = -1
LONG_ACK = 2000
"""Ids; an individual ACK of more is served in slices."""

_position = tuple.__new__  # half the time of Position(…)


class SendRun:
    """The SENDs of one producer, in order, up to the next command that must not overtake them.

    Index i of each list is the i-th SEND: its entry, its sequence id (of a batch: its first message's), its highest
    sequence id (NO_SEQUENCE where it has none), its number of messages. `unusual` has the commands of those SENDs
    that say more than that: transactions, chunks, markers, ids of shadow topics.
    """

    __slots__ = ("entries", "highest_ids", "messages", "producer_id", "sequence_ids", "unusual")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.entries: list[bytes] = []
        self.sequence_ids: list[int] = []
        self.highest_ids: list[int] = []
        self.messages: list[int] = []
        self.unusual: dict[int, CommandSend] = {}

    def __repr__(self) -> str:
        return f"SendRun(producer {self.producer_id}, sequence ids {self.sequence_ids[:3]}…, {len(self)} entries)"

    def __len__(self) -> int:
        return len(self.entries)

    def only(self, indexes: Sequence[int]) -> "SendRun":
        """A run of the SENDs at these indexes, in their order."""
        kept = SendRun(self.producer_id)
        kept.entries = [self.entries[index] for index in indexes]
        kept.sequence_ids = [self.sequence_ids[index] for index in indexes]
        kept.highest_ids = [self.highest_ids[index] for index in indexes]
        kept.messages = [self.messages[index] for index in indexes]
        kept.unusual = {at: self.unusual[index] for at, index in enumerate(indexes) if index in self.unusual}
        return kept

    @property
    def in_transactions(self) -> list[int]:
        """The indexes of the SENDs that belong to a transaction."""
        return [
            index
            for index, send in self.unusual.items()
            if send.HasField("txnid_least_bits") and send.HasField("txnid_most_bits")
        ]


class CorruptSend(NamedTuple):
    """A SEND whose entry does not have the checksum that it says: it is answered with ChecksumError and not stored."""

    producer_id: int
    sequence_id: int


class PartialAck(NamedTuple):
    """Of the entry at `position` the batch indexes that `ack_set` lacks are acknowledged: signed 64-bit words."""

    position: Position
    ack_set: Sequence[int]


class AckRun:
    """The individual ACKs of one consumer up to the next command that must not overtake them.

    `positions` are whole entries, `partial` are batches, `request_ids` want an answer once all of these are durable.
    """

    __slots__ = ("consumer_id", "partial", "positions", "request_ids")

    def __init__(self, consumer_id: int) -> None:
        self.consumer_id = consumer_id
        self.positions: list[Position] = []
        self.partial: list[PartialAck] = []
        self.request_ids: list[int] = []

    def __repr__(self) -> str:
        return f"AckRun(consumer {self.consumer_id}, {len(self.positions)} entries, {len(self.partial)} batches)"

    def add(self, position: Position, ack_set: Sequence[int]) -> None:
        """Add an entry, of which only a part is acknowledged if there is an ack set."""
        if ack_set:
            self.partial.append(PartialAck(position, tuple(ack_set)))
        else:
            self.positions.append(position)


class LongAck(NamedTuple):
    """An individual ACK of very many ids, taken apart while it is served: other connections have turns between."""

    consumer_id: int
    ids: Sequence[MessageIdData]
    request_id: int | None

    def slices(self) -> Iterator[AckRun]:
        """The same as runs of at most `LONG_ACK` ids; the last one wants the answer."""
        for start in range(0, len(self.ids), LONG_ACK):
            run = AckRun(self.consumer_id)
            for one in self.ids[start : start + LONG_ACK]:
                run.add(position_of(one), one.ack_set)
            if self.request_id is not None and start + LONG_ACK >= len(self.ids):
                run.request_ids.append(self.request_id)
            yield run


class CumulativeAck(NamedTuple):
    """Everything up to `position` is acknowledged, of its batch what `ack_set` lacks (empty: the whole entry).

    `properties` are kept with the mark-delete position.
    """

    consumer_id: int
    position: Position
    ack_set: Sequence[int]
    request_id: int | None
    properties: Mapping[str, int]

    @property
    def request_ids(self) -> list[int]:
        """Its request, if the client wants an answer."""
        return [] if self.request_id is None else [self.request_id]


class Flow(NamedTuple):
    """A consumer takes so many messages more."""

    consumer_id: int
    permits: int


Request = SendRun | CorruptSend | AckRun | LongAck | CumulativeAck | Flow | Command


class Received(NamedTuple):
    """The requests of all whole frames, in order. With `error` the connection ends after them, and says why."""

    requests: list[Request]
    error: ProtocolError | None = None


def position_of(message_id: MessageIdData) -> Position:
    """The position of the entry that a message id names; protobuf sends numbers below 0 as ones from 2^63 on."""
    ledger, entry = message_id.ledgerId, message_id.entryId
    if (ledger | entry) >> 63:
        return Position(signed(ledger), signed(entry))
    return _position(Position, (ledger, entry))
