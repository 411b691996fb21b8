"""One client's connection: hands requests to their handlers, and limits what is pending.

The receiver takes a buffer apart in one loop. The sends of a producer in it are one append, and the
acknowledgements of a consumer one call.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from mledger.broker.connections.connection_limits import plan_admission
from mledger.broker.connections.credential_renewal import CredentialRenewal
from mledger.broker.connections.intake import Hold, Intake
from mledger.broker.connections.keep_alive import KeepAlive
from mledger.broker.connections.lookup_turns import LookupTurns
from mledger.broker.connections.openings import Openings
from mledger.broker.connections.publish_pause import PublishPause
from mledger.broker.connections.request_turns import RequestTurns
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.connections.topic_list_watcher import TopicListWatcher
from mledger.broker.connections.unstored_sends import UnstoredSends
from mledger.broker.protocol import answers
from mledger.broker.protocol.commands import Command
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.receiver import Receiver
from mledger.broker.protocol.requests import AckRun, CorruptSend, CumulativeAck, Flow, LongAck, Request, SendRun
from mledger.broker.protocol.send_receipts import send_receipts, unstored_receipts
from mledger.broker.protocol.versions import ClientFeatures
from mledger.broker.refusals import BrokerRefusal, refusal_of, refusal_of_unknown
from mledger.broker.security.errors import NotAuthorized
from mledger.broker.security.permissions import TopicOperation
from mledger.broker.security.principals import ANYBODY
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.subscriptions.ack_answers import refuse_closed
from mledger.broker.topics.subscriptions.consumer import Consumer, OutgoingEntries
from mledger.ledgers.entries.open_ledger import Appended
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.connection_limit import takes_last_files
from mledger.pb import PulsarApi_pb2 as pb

log = get_logger(__name__)

NO_ENTRY = (1 << 64) - 1
WRITE_BUFFER = 1 << 20  # bytes behind which a consumer counts as not writable (D9)
UNREAD_BUFFER = 16 << 20  # bytes behind which no more requests are read

Handler = Callable[["BrokerConnection", Any], "Coroutine[Any, Any, None] | None"]


class BrokerConnection(asyncio.BufferedProtocol):
    """A client's connection. `handlers` are by type of command."""

    def __init__(self, broker: ServedBroker, handlers: Mapping[int, Handler]) -> None:
        self.broker = broker
        self.connected = False
        self.connecting = False
        """Whether its credentials are being checked."""
        self.principal = ANYBODY
        self.renewal: CredentialRenewal | None = None
        self.client_version = ""
        self.features = ClientFeatures()
        self.host = self.address = ""
        self.producers: dict[int, Producer] = {}
        self.opening_producers = Openings("producer")
        self.closed_producers: set[int] = set()
        """Producers that the broker closed and whose sends may still come in; those are ignored."""
        self.consumers: dict[int, Consumer] = {}
        self.opening_consumers = Openings("consumer")
        self.watchers: dict[int, TopicListWatcher] = {}
        self.opening_watchers = Openings("watcher")
        self.pending_sends = 0
        self._unstored = UnstoredSends()
        self._handlers = handlers
        self._transport: asyncio.Transport
        self._receiver = Receiver(broker.max_message_size)
        self._receiver.expect_connect()
        self.lookups = LookupTurns(broker)
        self._tasks: set[asyncio.Task[None]] = set()
        self._intake: Intake
        self.unread = 0
        """Bytes that the client had not taken when reading was stopped for them; 0: it is not."""
        self._pause: PublishPause
        self._lost = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the connection is gone."""
        self._writable = True
        self._keep_alive = KeepAlive(self)

    # -- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a client."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not of that class
        self._transport.set_write_buffer_limits(WRITE_BUFFER)
        self._intake = Intake(self._transport)
        self._pause = PublishPause(self._intake, self.producers.values)
        self._encrypted = transport.get_extra_info("ssl_object") is not None
        self._turns = RequestTurns(self._serve, self._violated, self._intake)
        host, port, *_ = transport.get_extra_info("peername") or ("?", "?")  # it may be gone
        self.host, self.address = host, f"{host}:{port}"
        hosts, opened = (each.host for each in self.broker.connections), transport.get_extra_info("socket")
        refusal = plan_admission(self.broker.settings, host, hosts, last_files=takes_last_files(opened))
        if refusal:
            self.refuse(answers.UNASKED, BrokerRefusal(pb.NotAllowedError, refusal))
            self.close(refusal)
            return
        self.broker.connections.add(self)
        self.broker.connections_made += 1
        self._keep_alive.watch()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the client: its producers and consumers are closed."""
        self._lost = True
        self.lost.set_result(None)
        if self.renewal is not None:
            self.renewal.stop()
        self._keep_alive.stop()
        self._turns.stop()
        self._pause.stop()
        self.broker.connections.discard(self)
        for task in list(self._tasks):
            task.cancel()
        for producer in list(self.producers.values()):
            producer.topic.remove_producer(producer)
        self.producers.clear()
        for consumer in list(self.consumers.values()):
            consumer.subscription.close_consumer(consumer)
        self.consumers.clear()
        for watcher in self.watchers.values():
            watcher.end()
        self.watchers.clear()

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The client's verified certificate, if it has shown one."""
        return self._transport.get_extra_info("peercert") or None

    @property
    def held_back(self) -> bool:
        """Whether the broker has a reason not to read its requests."""
        return self._intake.held_back

    @property
    def unsent(self) -> int:
        """How many bytes wait to be sent."""
        return self._transport.get_write_buffer_size()

    async def lives(self) -> bool:
        """Whether the client answers; if it does not, its connection is cut, and what it has open is gone on return."""
        return await self._keep_alive.lives(self.broker.settings.liveness_check_s)

    def greeted(self) -> None:
        """The client is known: it may send any command, and messages."""
        self.connected = True
        self._receiver.connected()

    async def allow(self, operation: TopicOperation, topic: TopicName, subscription: str = "") -> None:
        """Raise NotAuthorized, and log it, unless the client may do this with the topic."""
        try:
            await self.broker.security.allow(self.principal, operation, topic, subscription)
        except NotAuthorized as error:
            log.warning("not_authorized", client=self.address, reason=error)
            raise

    def close(self, reason: str) -> None:
        """End the connection; what was written is still sent."""
        if not self._lost and not self._transport.is_closing():
            log.info("connection_closed", client=self.address, reason=reason)
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        if not self._lost:
            self._transport.abort()

    # -- out

    def write(self, data: bytes) -> None:
        """Send bytes, unless the client is gone."""
        if not self._lost:
            self._transport.write(data)

    def succeed(self, request_id: int) -> None:
        """Answer a request that has no answer of its own."""
        self.write(answers.success(request_id))

    def refuse(self, request_id: int, refusal: BrokerRefusal) -> None:
        """Answer a request with an error."""
        self.write(answers.error(request_id, refusal.code, str(refusal)))

    def answer_sends(self, producer: Producer, run: SendRun, stored: Appended) -> None:
        """Answer sends with where their entries are stored, in one write."""
        at, frames = 0, []
        for ledger_id, first, count in ((each.ledger_id, each.first_entry, len(each)) for each in stored):
            sequences, highest = run.sequence_ids[at : at + count], run.highest_ids[at : at + count]
            frames.append(send_receipts(producer.id, ledger_id, first, sequences, highest))
            at += count
        self.write(b"".join(frames))

    def take_unstored(self, sends: int) -> int:
        """How many of so many sends to a non-persistent topic, which came now, it may take (D12)."""
        return self._unstored.take(sends, self.broker.settings.unstored_messages_per_connection)

    def answer_unstored(self, producer: Producer, run: SendRun, start: int, stop: int, position: Position) -> None:
        """Answer the sends from `start` to before `stop`, which are not stored, all with one id."""
        sequences, highest = run.sequence_ids[start:stop], run.highest_ids[start:stop]
        self.write(unstored_receipts(producer.id, *position, sequences, highest))

    def answer_duplicate(self, producer: Producer, sequence_id: int, highest_id: int) -> None:
        """Answer a send whose message is stored already: its receipt names no entry."""
        self.write(send_receipts(producer.id, NO_ENTRY, NO_ENTRY, [sequence_id], [highest_id]))

    def refuse_send(self, producer: Producer, sequence_id: int, refusal: BrokerRefusal) -> None:
        """Answer a send with an error."""
        self.write(answers.send_error(producer.id, sequence_id, refusal.code, str(refusal)))

    def disconnect_producer(self, producer: Producer, moved_to: ServiceUrls = NOWHERE) -> None:
        """Tell the client that the broker closed a producer; it looks the topic up again, or goes to `moved_to`."""
        if self.producers.get(producer.id) is producer:
            del self.producers[producer.id]
        self.closed_producers.add(producer.id)
        if self.features.takes_closes:
            self.write(answers.close_producer(producer.id, url=moved_to.plain, tls_url=moved_to.tls))
        else:
            self.close("the broker closed a producer")

    # -- consumers

    def consumer(self, consumer_id: int) -> Consumer:
        """An open consumer of this connection.

        Raises:
            BrokerRefusal: there is none of that number.
        """
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            raise BrokerRefusal(pb.MetadataError, f"consumer {consumer_id} is not open on this connection")
        return consumer

    @property
    def writable(self) -> bool:
        """Whether little enough waits to be sent (D9)."""
        return self._writable

    def pause_writing(self) -> None:
        """The client takes less than it is sent: its consumers get one message's worth at a time (D9)."""
        self._set_writable(False)

    def resume_writing(self) -> None:
        """The client has taken what waited."""
        self._set_writable(True)
        self.unread = 0
        self._intake.release(Hold.ANSWERS)
        for consumer in list(self.consumers.values()):
            consumer.subscription.run()

    def _set_writable(self, writable: bool) -> None:
        self._writable = writable
        for consumer in self.consumers.values():
            consumer.dispatch.writable = writable

    def deliver(self, consumer: Consumer, outgoing: OutgoingEntries) -> None:
        """Send messages in one write."""
        if not self._lost:
            self._transport.writelines(consumer.frames.parts(*outgoing, consumer.dispatch.epoch))

    def tell_active(self, consumer: Consumer, active: bool) -> None:
        """Tell the client whether the consumer is the active one of its subscription."""
        if self.features.takes_active_changes:
            self.write(answers.active_consumer_change(consumer.id, active))

    def disconnect_consumer(self, consumer: Consumer, moved_to: ServiceUrls = NOWHERE) -> None:
        """Tell the client that the broker closed a consumer; it subscribes again, at `moved_to` if one is named."""
        if self.consumers.get(consumer.id) is consumer:
            del self.consumers[consumer.id]
        if self.features.takes_closes:
            self.write(answers.close_consumer(consumer.id, url=moved_to.plain, tls_url=moved_to.tls))
        else:
            self.close("the broker closed a consumer")

    def answer_ack(self, consumer_id: int, request_id: int) -> None:
        """Tell the client that an acknowledgement is durable."""
        self.write(answers.ack_response(consumer_id, request_id))

    def refuse_ack(self, consumer_id: int, request_id: int, error: MledgerError) -> None:
        """Tell the client that an acknowledgement failed."""
        refusal = refusal_of(error)
        self.write(answers.ack_response(consumer_id, request_id, refusal.code, str(refusal)))

    def end_of_topic(self, consumer: Consumer) -> None:
        """Tell the client that a terminated topic has no more messages."""
        if self.features.takes_end_of_topic:
            self.write(answers.reached_end_of_topic(consumer.id))

    # -- in

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self.broker.reads.whole if self._encrypted else self.broker.reads.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what came; read no more while the client leaves too many answers, or others have their turns."""
        self._keep_alive.heard()
        data, turn = self.broker.reads.take(self, nbytes)
        if turn and not self._encrypted:
            self._intake.hold(Hold.TURN)
            asyncio.get_running_loop().call_soon(self._intake.release, Hold.TURN)
        waiting = 0 if self._writable else self.unsent
        if waiting > UNREAD_BUFFER and not self.unread:
            self.unread = waiting
            self._intake.hold(Hold.ANSWERS)
        self._turns.take(*self._receiver.receive(data))

    def _violated(self, error: ProtocolError) -> None:
        log.warning("protocol_violated", client=self.address, error=error)
        self._transport.close()

    def _serve(self, request: Request) -> None:
        kind = type(request)
        if kind is Command:
            self._serve_command(cast("Command", request))
        elif not self.connected:
            raise ProtocolError(f"{kind.__name__} before CONNECT")
        elif kind is SendRun:
            self._publish(cast("SendRun", request))
        elif kind is CorruptSend:
            self._refuse_corrupt(cast("CorruptSend", request))
        else:
            self._serve_consumer(cast("AckRun | LongAck | CumulativeAck | Flow", request))

    def _serve_consumer(self, request: AckRun | LongAck | CumulativeAck | Flow) -> None:
        if isinstance(request, LongAck):
            self._turns.serve_next(request.slices())
            return
        consumer = self.consumers.get(request.consumer_id)
        if consumer is None:  # closed lately: its client may not know yet
            self._refuse_acks(request)
            return
        if type(request) is AckRun:
            consumer.subscription.acknowledge(consumer, request)
        elif type(request) is Flow:
            consumer.subscription.flow(consumer, request.permits)
        else:
            consumer.subscription.acknowledge_cumulative(consumer, cast("CumulativeAck", request))

    def _refuse_acks(self, request: AckRun | CumulativeAck | Flow) -> None:
        """Answer the acknowledgements of a closed consumer: this connection stays open, and its client waits."""
        if not isinstance(request, Flow):
            refuse_closed(self, request.consumer_id, request.request_ids)

    def _serve_command(self, command: Command) -> None:
        if not self.connected and command.type != pb.BaseCommand.CONNECT:
            raise ProtocolError(f"{command.name} before CONNECT")
        handler = self._handlers.get(command.type) if not command.excess else None
        if handler is None:
            self.refuse(*refusal_of_unknown(command))
            return
        work = handler(self, command.body)
        if work is not None:
            task = asyncio.get_running_loop().create_task(self._answer(work, command.body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, work: Coroutine[Any, Any, None], request: Any) -> None:
        try:
            await work
        except MledgerError as error:
            self.refuse(request.request_id, refusal_of(error))
        except asyncio.CancelledError:
            if not self._lost:
                closed = BrokerRefusal(pb.ServiceNotReady, "closed before the request was carried out")
                self.refuse(request.request_id, closed)
        except Exception:
            log.exception("request_failed", client=self.address, request=type(request).__name__)
            if isinstance(request, pb.CommandConnect | pb.CommandAuthResponse):  # without an id, and without an answer
                self.close("its credentials could not be checked")
                return
            self.refuse(request.request_id, BrokerRefusal(pb.UnknownError, "the broker failed; its log says how"))

    # -- publishing

    def _producer(self, producer_id: int) -> Producer | None:
        """The producer, None if it was closed lately: its client may not know yet."""
        producer = self.producers.get(producer_id)
        if producer is None and producer_id not in self.closed_producers:
            raise ProtocolError(f"SEND of producer {producer_id}, which is not open")
        return producer

    def _publish(self, run: SendRun) -> None:
        """Hand the sends of a producer to its topic; reads no more while too much is pending."""
        producer = self._producer(run.producer_id)
        if producer is None:
            return
        broker, settings = self.broker, self.broker.settings
        size = sum(map(len, run.entries))
        self.pending_sends += len(run)
        broker.pending_bytes += size
        producer.topic.publish(producer, run, size)
        if broker.pending_bytes > settings.publish_buffer_bytes > 0:
            broker.full = True
        most = settings.pending_publishes_per_connection
        if self.pending_sends and (broker.full or self.pending_sends >= most > 0):
            self._intake.hold(Hold.PENDING)
        if producer.topic.publish_limits.limiters:
            self._pause.keep_to(producer.topic.publish_limits)

    def _refuse_corrupt(self, send: CorruptSend) -> None:
        producer = self._producer(send.producer_id)
        if producer is not None:
            refusal = BrokerRefusal(pb.ChecksumError, "the entry does not have the checksum that it says")
            self.refuse_send(producer, send.sequence_id, refusal)

    def published(self, sends: int, size: int) -> None:
        """Entries of this connection are stored, or failed."""
        broker = self.broker
        self.pending_sends -= sends
        broker.pending_bytes -= size
        if broker.full and broker.pending_bytes <= broker.settings.publish_buffer_bytes // 2:
            broker.full = False
            for connection in broker.connections:
                connection.resume()
        self.resume()

    def resume(self) -> None:
        """Read on if little enough is pending."""
        limit = self.broker.settings.pending_publishes_per_connection
        if not self.broker.full and (limit <= 0 or self.pending_sends <= limit // 2):
            self._intake.release(Hold.PENDING)
