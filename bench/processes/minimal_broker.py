"""A broker without a broker's duties: what lies between an official client and `ManagedLedger`, and nothing else.

`python -m bench.processes.minimal_broker METADATA`. It prints its port, and serves until SIGTERM. It answers what
a producer and a consumer need in order to work, on one topic owner, for one consumer a subscription. No name is
checked, no batch opened, no key looked at, and nothing is redelivered. Everything a socket has received is one pass:
the messages of a producer in it are one append and its receipts one write, acknowledgements are one call. A consumer
that keeps up is given what was appended from memory; one that does not is given what is read.
"""

import argparse
import asyncio
import signal
import struct
import sys
from collections import deque
from collections.abc import Iterable, Sequence

import google_crc32c
import uvloop

import mledger
from mledger import Position
from mledger.config import ManagedLedgerConfig
from mledger.pb.PulsarApi_pb2 import BaseCommand, CommandLookupTopicResponse, CommandPartitionedTopicMetadataResponse

MOST_RUNS = 1000
"""The runs of entries that a subscription keeps in memory for a consumer that is not ready."""
READ_AT_ONCE = 1000
_u32 = struct.Struct(">I")
_two_u32 = struct.Struct(">II")
_SEND_HEAD = bytes((8, BaseCommand.SEND))
_MAGIC_AND_CRC = 6


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_VARINTS = [varint(number) for number in range(1 << 15)]


def small_varint(number: int) -> bytes:
    """`varint`, from a table where it can."""
    return _VARINTS[number] if number < len(_VARINTS) else varint(number)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next field begins."""
    number, shift = data[at] & 0x7F, 7
    while data[at] > 0x7F:
        at += 1
        number |= (data[at] & 0x7F) << shift
        shift += 7
    return number, at + 1


def framed(command: bytes) -> bytes:
    """A command without a payload as a frame."""
    return _two_u32.pack(len(command) + 4, len(command)) + command


class MinimalSubscription:
    """One subscription with at most one consumer, which is given everything from `_next` on."""

    def __init__(self, ledger: mledger.ManagedLedger, cursor: mledger.Cursor) -> None:
        self.cursor = cursor
        self.consumer: MinimalConsumer | None = None
        self._ledger = ledger
        self._tail: deque[tuple[int, int, Sequence[bytes]]] = deque()
        self._next: Position | None = cursor.read_position
        """Where to read on; None while the consumer is given what is appended."""
        self._reading = False

    def appended(self, runs: Iterable[tuple[int, int, Sequence[bytes]]]) -> None:
        """Take what was appended."""
        if self._next is None:
            self._tail.extend(runs)
            if len(self._tail) > MOST_RUNS:
                self._next = Position(*self._tail[0][:2])
                self._tail.clear()
        self.serve()

    def serve(self) -> None:
        """Give the consumer what it has permits for."""
        consumer = self.consumer
        if consumer is None or consumer.permits <= 0:
            return
        if self._next is not None:
            if not self._reading:
                self._reading = True
                asyncio.get_running_loop().create_task(self._catch_up(consumer))
            return
        while self._tail and consumer.permits > 0:
            ledger, first, entries = self._tail.popleft()
            if len(entries) > consumer.permits:
                self._tail.appendleft((ledger, first + consumer.permits, entries[consumer.permits :]))
                entries = entries[: consumer.permits]
            consumer.give(ledger, first, entries)

    async def _catch_up(self, consumer: "MinimalConsumer") -> None:
        try:
            while self._next is not None and consumer.permits > 0:
                entries = await self._ledger.read(self._next, min(consumer.permits, READ_AT_ONCE))
                if not entries:
                    self._next = None
                    break
                for ledger, first, payloads in runs_of(entries):
                    consumer.give(ledger, first, payloads)
                    self._next = Position(ledger, first + len(payloads))
        finally:
            self._reading = False


def runs_of(entries: Sequence[mledger.Entry]) -> list[tuple[int, int, list[bytes]]]:
    """Entries that lie beside each other: ledger, first entry, payloads."""
    runs: list[tuple[int, int, list[bytes]]] = []
    for (ledger, number), payload in entries:
        if runs and runs[-1][0] == ledger and runs[-1][1] + len(runs[-1][2]) == number:
            runs[-1][2].append(payload)
        else:
            runs.append((ledger, number, [payload]))
    return runs


class MinimalConsumer:
    """Writes messages to a connection."""

    def __init__(self, transport: asyncio.WriteTransport, number: int) -> None:
        self.permits = 0
        self._transport, self._consumer = transport, b"\x08" + varint(number) + b"\x12"

    def give(self, ledger: int, first: int, entries: Sequence[bytes]) -> None:
        """Write entries that lie beside each other, in one call."""
        self.permits -= len(entries)
        before = b"\x08" + varint(ledger) + b"\x10"
        parts: list[bytes] = []
        for number, entry in enumerate(entries, first):
            where = before + small_varint(number)
            message = self._consumer + small_varint(len(where)) + where
            command = b"\x08\x09\x4a" + small_varint(len(message)) + message
            parts.append(_two_u32.pack(len(command) + 4 + len(entry), len(command)) + command)
            parts.append(entry)
        self._transport.writelines(parts)


class MinimalTopic:
    """An open topic and its subscriptions."""

    def __init__(self, ledger: mledger.ManagedLedger) -> None:
        self.ledger = ledger
        self.subscriptions: dict[str, MinimalSubscription] = {}

    def append(
        self, connection: "MinimalConnection", producer: int, sequence_ids: list[int], entries: list[bytes]
    ) -> None:
        """Append what a producer sent; its receipts and the consumers' messages follow."""

        def stored(done: "asyncio.Future[tuple[mledger.AppendedRange, ...]]") -> None:
            head, at, receipts, runs = b"\x08" + varint(producer) + b"\x10", 0, [], []
            for where in done.result():
                before = b"\x08" + varint(where.ledger_id) + b"\x10"
                for number, sequence_id in enumerate(sequence_ids[at : at + len(where)], where.first_entry):
                    place = before + small_varint(number)
                    receipt = head + small_varint(sequence_id) + b"\x1a" + small_varint(len(place)) + place
                    receipts.append(framed(b"\x08\x07\x3a" + small_varint(len(receipt)) + receipt))
                runs.append((where.ledger_id, where.first_entry, entries[at : at + len(where)]))
                at += len(where)
            connection.transport.write(b"".join(receipts))
            for subscription in self.subscriptions.values():
                subscription.appended(runs)

        self.ledger.append(entries).add_done_callback(stored)


class MinimalConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, cluster: mledger.Cluster, topics: "dict[str, asyncio.Task[MinimalTopic]]") -> None:
        self.transport: asyncio.WriteTransport
        self._cluster, self._topics = cluster, topics
        self._rest = b""
        self._producers: dict[int, MinimalTopic] = {}
        self._consumers: dict[int, tuple[MinimalConsumer, MinimalSubscription]] = {}
        self._slow: deque[BaseCommand] = deque()
        self._url = ""

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        """Remember where to write, and the address by which the client came."""
        self.transport = transport
        self._url = "pulsar://{}:{}".format(*transport.get_extra_info("sockname")[:2])

    def connection_lost(self, error: Exception | None) -> None:
        """Forget its consumers."""
        for consumer, subscription in self._consumers.values():
            if subscription.consumer is consumer:
                subscription.consumer = None

    def data_received(self, data: bytes) -> None:
        """Everything that has arrived, in one pass."""
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        sent: dict[int, tuple[list[int], list[bytes]]] = {}
        while end - at >= 8:
            total, size = _two_u32.unpack_from(data, at)
            after = at + 4 + total
            if after > end:
                break
            if data.startswith(_SEND_HEAD, at + 8):
                self._take(data, at + 8, at + 8 + size, after, sent)
            else:
                self._command(BaseCommand.FromString(data[at + 8 : at + 8 + size]))
            at = after
        self._rest = data[at:]
        for producer, (sequence_ids, entries) in sent.items():
            self._producers[producer].append(self, producer, sequence_ids, entries)

    def _take(
        self, data: bytes, command: int, entry: int, after: int, sent: dict[int, tuple[list[int], list[bytes]]]
    ) -> None:
        """One message; CommandSend begins with the producer's id and the sequence id."""
        _, at = read_varint(data, command + 3)
        producer, at = read_varint(data, at + 1)
        sequence_id, _ = read_varint(data, at + 1)
        (checksum,) = _u32.unpack_from(data, entry + 2)
        if google_crc32c.value(data[entry + _MAGIC_AND_CRC : after]) != checksum:
            raise ValueError("a message does not have its checksum")
        of_producer = sent.get(producer)
        if of_producer is None:
            of_producer = sent[producer] = ([], [])
        of_producer[0].append(sequence_id)
        of_producer[1].append(data[entry:after])

    def _command(self, command: BaseCommand) -> None:
        handlers = {
            BaseCommand.ACK: self._acknowledge,
            BaseCommand.FLOW: self._flow,
            BaseCommand.PING: lambda _: self._answer(BaseCommand.PONG, "pong"),
            BaseCommand.PONG: lambda _: None,
            BaseCommand.CONNECT: self._connect,
            BaseCommand.PARTITIONED_METADATA: self._partitions,
            BaseCommand.LOOKUP: self._lookup,
            BaseCommand.PRODUCER: self._attach_later,
            BaseCommand.SUBSCRIBE: self._attach_later,
            BaseCommand.CLOSE_PRODUCER: self._close_producer,
            BaseCommand.CLOSE_CONSUMER: self._close_consumer,
        }
        handlers[command.type](command)

    def _acknowledge(self, command: BaseCommand) -> None:
        subscription, given = self._consumers[command.ack.consumer_id][1], command.ack.message_id
        if command.ack.ack_type == command.ack.Cumulative:
            subscription.cursor.acknowledge_cumulative(Position(given[0].ledgerId, given[0].entryId))
        else:
            subscription.cursor.acknowledge([Position(each.ledgerId, each.entryId) for each in given])

    def _flow(self, command: BaseCommand) -> None:
        consumer, subscription = self._consumers[command.flow.consumer_id]
        consumer.permits += command.flow.messagePermits
        subscription.serve()

    def _connect(self, _: BaseCommand) -> None:
        self._answer(BaseCommand.CONNECTED, "connected", server_version="minimal", protocol_version=20)

    def _partitions(self, command: BaseCommand) -> None:
        self._answer(
            BaseCommand.PARTITIONED_METADATA_RESPONSE,
            "partitionMetadataResponse",
            partitions=0,
            request_id=command.partitionMetadata.request_id,
            response=CommandPartitionedTopicMetadataResponse.Success,
        )

    def _lookup(self, command: BaseCommand) -> None:
        self._answer(
            BaseCommand.LOOKUP_RESPONSE,
            "lookupTopicResponse",
            brokerServiceUrl=self._url,
            response=CommandLookupTopicResponse.Connect,
            request_id=command.lookupTopic.request_id,
            authoritative=True,
        )

    def _close_producer(self, command: BaseCommand) -> None:
        self._answer(BaseCommand.SUCCESS, "success", request_id=command.close_producer.request_id)

    def _close_consumer(self, command: BaseCommand) -> None:
        self._consumers.pop(command.close_consumer.consumer_id)[1].consumer = None
        self._answer(BaseCommand.SUCCESS, "success", request_id=command.close_consumer.request_id)

    def _attach_later(self, command: BaseCommand) -> None:
        asyncio.get_running_loop().create_task(self._attach(command))

    def _answer(self, kind: "BaseCommand.Type", field: str, **values: object) -> None:
        answer = BaseCommand(type=kind)
        getattr(answer, field).SetInParent()
        for name, value in values.items():
            setattr(getattr(answer, field), name, value)
        self.transport.write(framed(answer.SerializeToString()))

    async def _topic(self, name: str) -> MinimalTopic:
        if name not in self._topics:
            self._topics[name] = asyncio.get_running_loop().create_task(self._open(name))
        return await self._topics[name]

    async def _open(self, name: str) -> MinimalTopic:
        return MinimalTopic(await self._cluster.open_topic(name, create=True, take_over=True))

    async def _attach(self, command: BaseCommand) -> None:
        if command.type == BaseCommand.PRODUCER:
            self._producers[command.producer.producer_id] = await self._topic(command.producer.topic)
            self._answer(
                BaseCommand.PRODUCER_SUCCESS,
                "producer_success",
                request_id=command.producer.request_id,
                producer_name=f"minimal-{command.producer.producer_id}",
                last_sequence_id=-1,
            )
            return
        asked = command.subscribe
        topic = await self._topic(asked.topic)
        if asked.subscription not in topic.subscriptions:
            cursor = await topic.ledger.open_cursor(asked.subscription, initial="earliest")
            topic.subscriptions[asked.subscription] = MinimalSubscription(topic.ledger, cursor)
        subscription, consumer = (
            topic.subscriptions[asked.subscription],
            MinimalConsumer(self.transport, asked.consumer_id),
        )
        self._consumers[asked.consumer_id] = consumer, subscription
        subscription.consumer = consumer
        self._answer(BaseCommand.SUCCESS, "success", request_id=asked.request_id)


async def serve(metadata: str, quorum: int) -> None:
    """Serve on a free port of 127.0.0.1 until SIGTERM."""
    loop, stop, topics = asyncio.get_running_loop(), asyncio.Event(), {}
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    config = ManagedLedgerConfig(
        ensemble_size=quorum, write_quorum_size=quorum, ack_quorum_size=max(1, quorum - 1), throttle_mark_delete=0
    )
    async with mledger.open_cluster(metadata, config=config) as cluster:
        server = await loop.create_server(lambda: MinimalConnection(cluster, topics), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await stop.wait()
        server.close()


def main() -> None:
    """Run one broker."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("metadata")
    parser.add_argument("--quorum", type=int, default=1, help="ensemble size and write quorum")
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)
    uvloop.run(serve(args.metadata, args.quorum))


if __name__ == "__main__":
    main()
