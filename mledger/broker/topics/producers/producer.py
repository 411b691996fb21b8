"""A producer of a topic."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from mledger.broker.dispatch.drop_rate import DropRate
from mledger.broker.protocol.requests import SendRun
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.client_rates import RatesIn, SampledRates
from mledger.broker.topics.producers.access import NO_EPOCH, AccessMode
from mledger.ledgers.entries.open_ledger import Appended
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import wall_clock_ms

if TYPE_CHECKING:
    from mledger.broker.topics.served_topic import ServedTopic


class ProducerConnection(Protocol):
    """The connection of a producer, as the topic uses it."""

    @property
    def host(self) -> str:
        """The client's address without its port."""

    @property
    def address(self) -> str:
        """The client's address, host:port."""

    @property
    def client_version(self) -> str:
        """What the client says that it is."""

    def answer_sends(self, producer: "Producer", run: SendRun, stored: Appended) -> None:
        """Answer sends with where their entries are stored, in one write."""

    def answer_duplicate(self, producer: "Producer", sequence_id: int, highest_id: int) -> None:
        """Answer a send whose message is stored already."""

    def refuse_send(self, producer: "Producer", sequence_id: int, refusal: BrokerRefusal) -> None:
        """Answer a send with an error."""

    def disconnect_producer(self, producer: "Producer", moved_to: ServiceUrls = NOWHERE) -> None:
        """Tell the client that the broker has closed the producer.

        The client looks the topic up again, or goes to the broker at `moved_to`.
        """

    async def lives(self) -> bool:
        """Whether the client answers; if it does not, its producers are gone on return."""

    def take_unstored(self, sends: int) -> int:
        """How many of so many sends to a non-persistent topic, which came now, it may take (D12)."""

    def answer_unstored(self, producer: "Producer", run: SendRun, start: int, stop: int, position: Position) -> None:
        """Answer the sends from `start` to before `stop`, which are not stored, all with one id."""

    def published(self, sends: int, size: int) -> None:
        """Entries of this connection are stored, or failed: their memory is free again."""


class ProducerRequest(Struct, frozen=True):
    """How a client asks for a producer. `epoch` counts its reconnections; `topic_epoch` is the one it had."""

    producer_id: int
    name: str
    user_provided_name: bool = True
    epoch: int = 0
    mode: AccessMode = AccessMode.SHARED
    topic_epoch: int = NO_EPOCH
    encrypted: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


class Producer:
    """An open producer. `pending` counts its batches that are not stored yet."""

    __slots__ = (
        "__weakref__",
        "_settled",
        "bytes_in",
        "chunks_in",
        "closed",
        "connected_ms",
        "connection",
        "drops",
        "fenced",
        "id",
        "last_sequence_id",
        "messages_in",
        "name",
        "on_drained",
        "pending",
        "rates",
        "request",
        "schema_version",
        "topic",
        "topic_epoch",
    )

    def __init__(self, connection: ProducerConnection, topic: "ServedTopic", request: ProducerRequest) -> None:
        self.connection = connection
        self.topic = topic
        self.request = request
        self.id = request.producer_id
        self.name = request.name
        self.topic_epoch = NO_EPOCH
        self.last_sequence_id = -1
        self.schema_version = b""
        self.closed = False
        self.fenced = False
        """Whether it is closed since another one has fenced it out: it never gets the topic back."""
        self.pending = 0
        self._settled: asyncio.Future[None] | None = None
        self.on_drained: Callable[[], None] | None = None
        """Called once nothing is pending, of a producer that its client closes."""
        self.connected_ms = wall_clock_ms()
        self.drops = DropRate()
        """What a non-persistent topic did not take from it."""
        self.messages_in = 0
        self.bytes_in = 0
        self.chunks_in = 0
        self.rates = SampledRates(len(RatesIn._fields))

    def sample(self) -> None:
        """Bring its rates up to date."""
        self.rates.sample((self.messages_in, self.bytes_in, self.chunks_in))

    def published(self, run: SendRun, messages: int, size: int) -> None:
        """Count entries that were taken from it."""
        self.messages_in += messages
        self.bytes_in += size
        if run.unusual:
            self.chunks_in += sum(each.is_chunk for each in run.unusual.values())

    def succeeds(self, other: "Producer") -> bool:
        """Whether it is `other`, reconnected: the same client's, with a later epoch."""
        return self.connection is other.connection and self.id == other.id and self.request.epoch > other.request.epoch

    def drained(self) -> None:
        """A batch is stored, or failed."""
        self.pending -= 1
        if self.pending:
            return
        if self._settled is not None:
            self._settled.set_result(None)
            self._settled = None
        if self.on_drained is not None:
            on_drained, self.on_drained = self.on_drained, None
            on_drained()

    async def settled(self) -> None:
        """Wait until none of its batches is pending."""
        while self.pending:
            if self._settled is None:
                self._settled = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._settled])
