"""A consumer of a subscription."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from msgspec import Struct, field

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.protocol.message_frames import NO_EPOCH, MessageFrames
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.client_rates import RatesOut, SampledRates
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.served_topic import ServedSubscription


class ConsumerRequest(Struct, frozen=True):
    """How a client subscribes. A low `priority` goes first; `kind` is a SubType of the protocol.

    `from_earliest`: a new subscription starts at the first message.
    """

    consumer_id: int
    name: str
    kind: int
    priority: int = 0
    durable: bool = True
    key_ranges: tuple[KeyRange, ...] = ()
    sticky: bool = False
    out_of_order: bool = False
    epoch: int = NO_EPOCH
    read_compacted: bool = False
    from_earliest: bool = False
    takes_any_schema: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


def kind_name(kind: int) -> str:
    """The name of a SubType of the protocol."""
    return pb.CommandSubscribe.SubType.Name(cast("pb.CommandSubscribe.SubType.ValueType", kind))


class ConsumerConnection(Protocol):
    """The connection of a consumer, as the subscription uses it."""

    @property
    def host(self) -> str:
        """The client's address without its port."""

    @property
    def address(self) -> str:
        """The client's address, host:port."""

    @property
    def client_version(self) -> str:
        """What the client says that it is."""

    @property
    def writable(self) -> bool:
        """Whether little enough waits to be sent (D9)."""

    async def lives(self) -> bool:
        """Whether the client answers; if it does not, its consumers are gone on return."""

    def deliver(self, consumer: "Consumer", outgoing: "OutgoingEntries") -> None:
        """Send messages in one write."""

    def close(self, reason: str) -> None:
        """End the connection; what was written is still sent."""

    def tell_active(self, consumer: "Consumer", active: bool) -> None:
        """Tell the client whether the consumer is the active one of its subscription."""

    def disconnect_consumer(self, consumer: "Consumer", moved_to: ServiceUrls = NOWHERE) -> None:
        """Tell the client that the broker has closed the consumer.

        The client subscribes again, at the broker at `moved_to` if one is named.
        """

    def answer_ack(self, consumer_id: int, request_id: int) -> None:
        """Tell the client that an acknowledgement is durable."""

    def refuse_ack(self, consumer_id: int, request_id: int, error: MledgerError) -> None:
        """Tell the client that an acknowledgement failed."""

    def end_of_topic(self, consumer: "Consumer") -> None:
        """Tell the client that a terminated topic has no more messages."""


class OutgoingEntries(NamedTuple):
    """Entries of one ledger that go to a consumer in one write.

    `redeliveries` are None if all are 0. `ack_sets`: the words of those batches of which indexes are
    acknowledged already, by entry id.
    """

    ledger_id: int
    entry_ids: Sequence[int]
    entries: Sequence[bytes]
    redeliveries: Sequence[int] | None
    ack_sets: Mapping[int, Sequence[int]]


class Consumer:
    """An open consumer; its permits and what it holds are in `dispatch`, `frames` encodes what it is sent.

    Without `takes_batches` its client can read no batch of several messages.
    """

    __slots__ = (
        "bytes_out",
        "chunks_out",
        "closed",
        "connected_ms",
        "connection",
        "cut_off",
        "dispatch",
        "first_flow_ms",
        "first_sent_ms",
        "frames",
        "id",
        "last_acked_ms",
        "last_consumed_ms",
        "last_flow_ms",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
        "name",
        "rates",
        "request",
        "subscription",
        "takes_batches",
    )

    def __init__(
        self,
        connection: ConsumerConnection,
        subscription: "ServedSubscription",
        request: ConsumerRequest,
        frames: MessageFrames,
        *,
        takes_batches: bool = True,
    ) -> None:
        self.connection = connection
        self.subscription = subscription
        self.request = request
        self.frames = frames
        self.takes_batches = takes_batches
        self.cut_off = False
        self.id = request.consumer_id
        self.name = request.name
        self.dispatch = DispatchConsumer(self, request.name, request.priority, request.key_ranges, request.epoch)
        self.dispatch.writable = connection.writable
        self.closed = False
        self.connected_ms = wall_clock_ms()
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_redelivered = 0
        self.messages_acked = 0
        self.chunks_out = 0
        self.first_sent_ms = 0
        self.first_flow_ms = 0
        self.last_acked_ms = 0
        self.last_consumed_ms = 0
        self.last_flow_ms = 0
        self.rates = SampledRates(len(RatesOut._fields))

    def sample(self) -> None:
        """Bring its rates up to date."""
        counted = self.messages_out, self.bytes_out, self.messages_redelivered, self.messages_acked, self.chunks_out
        self.rates.sample(counted)

    def asked(self, now_ms: int) -> None:
        """It takes more messages."""
        self.first_flow_ms = self.first_flow_ms or now_ms
        self.last_flow_ms = self.subscription.last_flow_ms = now_ms

    def send(self, outgoing: OutgoingEntries, messages: int, chunks: int, now_ms: int) -> bool:
        """Send it entries of so many messages, of which some are chunks, and count them; returns whether it gets them.

        A client that cannot read batches is cut off before it is sent one: who comes next gets it.
        """
        if not self.takes_batches and self._is_cut_off(outgoing, messages):
            return False
        self._count(messages, sum(map(len, outgoing.entries)), chunks, now_ms)
        self.connection.deliver(self, outgoing)
        return True

    def _is_cut_off(self, outgoing: OutgoingEntries, messages: int) -> bool:
        """Whether it gets nothing more, not even what stands behind the batch: its client is refused from now on."""
        if not self.cut_off and _has_batch(outgoing, messages):
            self.cut_off = True
            self.dispatch.permits = 0
            self.subscription.topic.batch_published = True
            self.connection.close(f"consumer {self.name} is to be sent a batch, which its client cannot read")
        return self.cut_off

    def _count(self, messages: int, size: int, chunks: int, now_ms: int) -> None:
        """Count messages that are sent to it, for its subscription, too."""
        self.first_sent_ms = self.first_sent_ms or now_ms
        self.last_consumed_ms = now_ms
        self.messages_out += messages
        self.bytes_out += size
        self.chunks_out += chunks
        self.subscription.messages_out += messages
        self.subscription.bytes_out += size


def _has_batch(outgoing: OutgoingEntries, messages: int) -> bool:
    """Whether an entry has several messages, acknowledged ones among them."""
    return messages > len(outgoing.entries) or any(entry in outgoing.ack_sets for entry in outgoing.entry_ids)
