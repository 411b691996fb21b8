"""A broker on the test's own loop, with real bookies, and raw connections to it that speak Pulsar's protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import google_crc32c
import jwt

import mledger
from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.connections.requests.handlers import HANDLERS
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.process.listeners import ServedPorts
from mledger.broker.process.main import end, serve_cluster
from mledger.broker.process.options import parse_broker_options
from mledger.metastore.records.position import Position
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import HANG_S

TOPIC = "persistent://public/default/orders"
ONE_BOOKIE = mledger.ManagedLedgerConfig(
    ensemble_size=1,
    write_quorum_size=1,
    ack_quorum_size=1,
    deletion_at_batch_index_level_enabled=True,
)
_UNSIGNED = (1 << 64) - 1
_SECRET = b"s" * 32
SECURED = (
    "authenticationEnabled=true",
    "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    f"tokenSecretKey=data:,{_SECRET.decode()}",
    "authorizationEnabled=true",
    "superUserRoles=admin",
)
"""The settings of a broker whose clients need a token, and of whom `admin` may do everything."""


def token_of(role: str) -> str:
    """The token of a role for a broker that is `SECURED`."""
    return jwt.encode({"sub": role}, _SECRET, "HS256")


def credentials_of(role: str) -> dict[str, Any]:
    """What a client of that role sends with CONNECT."""
    return {"auth_method_name": "token", "auth_data": token_of(role).encode()}


class Served:
    """The running broker, its cluster, and the port on which it listens."""

    def __init__(self, broker: ServedBroker, cluster: mledger.Cluster, port: int) -> None:
        self.broker, self.cluster, self.port = broker, cluster, port

    async def connect(self, **fields: Any) -> "RawClient":
        """A connection whose handshake is done."""
        return await connect_to(self.port, **fields)

    async def open(self) -> "RawClient":
        """A connection without handshake."""
        return RawClient(*await asyncio.open_connection("127.0.0.1", self.port))


async def connect_to(port: int, **fields: Any) -> "RawClient":
    """A connection to a broker on this machine, whose handshake is done."""
    client = RawClient(*await asyncio.open_connection("127.0.0.1", port))
    client.send(pb.BaseCommand.CONNECT, "connect", client_version="raw", protocol_version=21, **fields)
    await client.expect("connected")
    return client


@contextlib.asynccontextmanager
async def served(
    url: str,
    *settings: str,
    config: mledger.ManagedLedgerConfig = ONE_BOOKIE,
    session_timeout: float = SESSION_TIMEOUT_S,
    policy_cluster: str | None = None,
    web_port: int | None = None,
    **changes: Any,
) -> AsyncIterator[Served]:
    """A broker of the cluster at `url`; `settings` are KEY=VALUE. It says that it serves HTTP at `web_port`."""
    quiet = "connectionLivenessCheckTimeoutMillis=0"  # raw connections answer only while a test waits for something
    sets = [each for setting in (quiet, *settings) for each in ("--set", setting)]
    options = parse_broker_options(["--metadata", url, *sets])
    config = replace(config, **changes)
    async with mledger.open_cluster(
        url,
        config=config,
        cache=options.owner.cache,
        session_timeout=session_timeout,
        policy_cluster=policy_cluster,
    ) as cluster:
        server = await asyncio.get_running_loop().create_server(
            lambda: BrokerConnection(broker, HANDLERS), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        broker = serve_cluster(cluster, options, ServedPorts(port, web=web_port))
        await broker.handover.start()
        try:
            yield Served(broker, cluster, port)
        finally:
            server.close()
            await end(broker)


class Message:
    """A message as the broker sent it."""

    def __init__(self, command: Any, entry: bytes) -> None:
        self.command, self.entry = command, entry
        size = int.from_bytes(entry[6:10], "big")
        self.payload = entry[10 + size :]

    @property
    def position(self) -> Position:
        """Where its entry is."""
        return Position(self.command.message_id.ledgerId, self.command.message_id.entryId)

    @property
    def redeliveries(self) -> int:
        """How often it was delivered before."""
        return self.command.redelivery_count


def payloads(messages: Iterable[Message]) -> list[bytes]:
    """What the messages carry, in their order."""
    return [each.payload for each in messages]


class RawClient:
    """One connection that sends commands as they are told, and hands out what comes in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.requests = 0

    def send(self, kind: int, field: str, payload: bytes = b"", **fields: Any) -> None:
        """Send a command."""
        command = pb.BaseCommand(type=kind)
        body = getattr(command, field)
        body.SetInParent()
        body.MergeFrom(type(body)(**fields))
        data = command.SerializeToString()
        self.writer.write(
            (len(data) + 4 + len(payload)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + payload
        )

    async def receive(self) -> tuple[pb.BaseCommand, bytes]:
        """The next command and its payload; answers pings."""
        async with asyncio.timeout(HANG_S):
            while True:
                size = int.from_bytes(await self.reader.readexactly(4), "big")
                frame = await self.reader.readexactly(size)
                length = int.from_bytes(frame[:4], "big")
                command = pb.BaseCommand.FromString(frame[4 : 4 + length])
                if command.type != pb.BaseCommand.PING:
                    return command, frame[4 + length :]
                self.send(pb.BaseCommand.PONG, "pong")

    async def expect(self, field: str) -> Any:
        """The next command, which must be of this kind."""
        command, _ = await self.receive()
        assert command.HasField(field), f"{field} expected, but this came: {command}"
        return getattr(command, field)

    async def messages(self, count: int) -> list[Message]:
        """The next `count` messages; nothing else may come between."""
        found = []
        while len(found) < count:
            command, payload = await self.receive()
            assert command.HasField("message"), f"a message expected, but this came: {command}"
            found.append(Message(command.message, payload))
        return found

    def next_request(self) -> int:
        """A request id."""
        self.requests += 1
        return self.requests

    async def producer(self, number: int = 0, topic: str = TOPIC, **fields: Any) -> Any:
        """Open a producer and return the answer."""
        request = self.next_request()
        self.send(pb.BaseCommand.PRODUCER, "producer", topic=topic, producer_id=number, request_id=request, **fields)
        return await self.expect("producer_success")

    async def refused_producer(self, topic: str, **fields: Any) -> Any:
        """The error that answers the request for a producer."""
        request = self.next_request()
        self.send(pb.BaseCommand.PRODUCER, "producer", topic=topic, producer_id=request, request_id=request, **fields)
        return await self.expect("error")

    def publish(
        self,
        payload: bytes,
        sequence: int = 0,
        number: int = 0,
        key: str | None = None,
        deliver_at: int = 0,
        **fields: Any,
    ) -> None:
        """Send a message, or with num_messages a batch; `deliver_at` is in ms since 1970."""
        entry = entry_of(payload, sequence, batch=fields.get("num_messages"), key=key, deliver_at=deliver_at)
        self.send(
            pb.BaseCommand.SEND, "send", payload=entry, producer_id=number, sequence_id=sequence & _UNSIGNED, **fields
        )

    async def store(self, entry: bytes, sequence: int = 0, number: int = 0) -> Position:
        """Send these bytes as an entry, wait for the receipt, and return its position."""
        self.send(pb.BaseCommand.SEND, "send", payload=entry, producer_id=number, sequence_id=sequence)
        receipt = await self.expect("send_receipt")
        return Position(receipt.message_id.ledgerId, receipt.message_id.entryId)

    async def publish_all(self, *payloads: bytes) -> list[Position]:
        """Send messages, wait for their receipts, and return their positions."""
        for sequence, payload in enumerate(payloads):
            self.publish(payload, sequence)
        found = []
        for _ in payloads:
            receipt = await self.expect("send_receipt")
            found.append(Position(receipt.message_id.ledgerId, receipt.message_id.entryId))
        return found

    async def subscribe(self, number: int = 0, *, permits: int = 0, topic: str = TOPIC, **fields: Any) -> None:
        """Open a consumer of the subscription `sub`, from the earliest message, and grant permits."""
        wanted = {"subscription": "sub", "subType": "Exclusive", "initialPosition": "Earliest", **fields}
        request = self.next_request()
        self.send(pb.BaseCommand.SUBSCRIBE, "subscribe", topic=topic, consumer_id=number, request_id=request, **wanted)
        await self.expect("success")
        if permits:
            self.flow(permits, number)

    def flow(self, permits: int, number: int = 0) -> None:
        """Grant permits."""
        self.send(pb.BaseCommand.FLOW, "flow", consumer_id=number, messagePermits=permits)

    def ack(self, *positions: Position, number: int = 0, kind: str = "Individual", **fields: Any) -> None:
        """Acknowledge entries."""
        ids = [pb.MessageIdData(ledgerId=each.ledger_id, entryId=each.entry_id) for each in positions]
        self.send(pb.BaseCommand.ACK, "ack", consumer_id=number, ack_type=kind, message_id=ids, **fields)

    async def ack_durably(self, *positions: Position, number: int = 0, kind: str = "Individual") -> None:
        """Acknowledge entries and wait for the answer."""
        self.ack(*positions, number=number, kind=kind, request_id=self.next_request())
        answer = await self.expect("ackResponse")
        assert not answer.HasField("error"), answer

    async def request(self, kind: int, field: str, answer: str = "success", **fields: Any) -> Any:
        """Send a request and return its answer."""
        self.send(kind, field, request_id=self.next_request(), **fields)
        return await self.expect(answer)

    async def closed(self) -> None:
        """Wait until the broker has closed the connection."""
        async with asyncio.timeout(HANG_S):
            while await self.reader.read(1 << 16):
                pass

    def close(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


def entry_of(
    payload: bytes, sequence: int = 0, batch: int | None = None, key: str | None = None, deliver_at: int = 0
) -> bytes:
    """An entry as clients send it: checksum, metadata, payload."""
    metadata = pb.MessageMetadata(producer_name="raw", sequence_id=sequence & _UNSIGNED, publish_time=1)
    if batch is not None:
        metadata.num_messages_in_batch = batch
    if key is not None:
        metadata.partition_key = key
    if deliver_at:
        metadata.deliver_at_time = deliver_at
    return entry_with(metadata.SerializeToString(), payload)


def entry_with(metadata: bytes, payload: bytes = b"") -> bytes:
    """An entry with these bytes as its metadata, whatever they are, and its checksum."""
    checked = len(metadata).to_bytes(4, "big") + metadata + payload
    return b"\x0e\x01" + google_crc32c.value(checked).to_bytes(4, "big") + checked


NO_MESSAGE = entry_with(b"\xff\xff")
"""An entry that a broker stores, since its checksum is right, and that is no message."""
