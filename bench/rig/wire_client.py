"""A client of a broker for benchmarks with very many topics: one connection, few of a real client's duties.

It speaks Pulsar's protocol, and answers pings. Whoever uses it grants permits and acknowledges by itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import google_crc32c

from mledger.pb.PulsarApi_pb2 import (
    BaseCommand,
    CommandAckResponse,
    CommandLookupTopicResponse,
    MessageIdData,
    MessageMetadata,
)

PROTOCOL = 21
_ANSWERS = {
    BaseCommand.SUCCESS: "success",
    BaseCommand.PRODUCER_SUCCESS: "producer_success",
    BaseCommand.LOOKUP_RESPONSE: "lookupTopicResponse",
    BaseCommand.ACK_RESPONSE: "ackResponse",
    BaseCommand.ERROR: "error",
}

OnMessage = Callable[[int, MessageIdData, bytes], None]


class RequestFailed(Exception):
    """The broker answered a request with an error."""


class WireClient(asyncio.Protocol):
    """A connection. `on_message` gets a consumer's number, a message's id, and its entry as the broker sent it."""

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self._transport: asyncio.Transport
        self._buffer = b""
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._receipts: dict[tuple[int, int], asyncio.Future[None]] = {}
        self._connected = asyncio.get_running_loop().create_future()
        self._next = 0
        self.closed_by_broker = 0
        """How many producers and consumers the broker closed."""
        self.lost = False

    @classmethod
    async def connect(cls, service_url: str, on_message: OnMessage) -> "WireClient":
        """A connection whose handshake is done."""
        place = urlsplit(service_url)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: cls(on_message), place.hostname, place.port)
        client._send(BaseCommand.CONNECT, "connect", client_version="bench", protocol_version=PROTOCOL)
        await client._connected
        return client

    # -- requests

    async def look_up(self, topic: str) -> str:
        """The service URL of the topic's broker."""
        answer = await self._ask(BaseCommand.LOOKUP, "lookupTopic", topic=topic, authoritative=False)
        if answer.response != CommandLookupTopicResponse.Connect:
            raise RequestFailed(f"{topic} was not found: {answer}")
        return str(answer.brokerServiceUrl)

    async def produce(self, number: int, topic: str) -> None:
        """Open a producer."""
        await self._ask(BaseCommand.PRODUCER, "producer", topic=topic, producer_id=number)

    async def subscribe(self, number: int, topic: str, subscription: str, permits: int) -> None:
        """Open a consumer of a shared subscription, at the first message if it is new, and grant permits."""
        wanted = {"subscription": subscription, "subType": "Shared", "initialPosition": "Earliest"}
        await self._ask(BaseCommand.SUBSCRIBE, "subscribe", topic=topic, consumer_id=number, **wanted)
        if permits:
            self.flow(number, permits)

    async def _ask(self, kind: int, field: str, **fields: Any) -> Any:
        self._next += 1
        future = self._requests[self._next] = asyncio.get_running_loop().create_future()
        self._send(kind, field, request_id=self._next, **fields)
        return await future

    # -- messages

    def publish(self, number: int, sequence: int, entry: bytes) -> "asyncio.Future[None]":
        """Send an entry (`entry_of`); the future is done when its receipt is there."""
        future = self._receipts[number, sequence] = asyncio.get_running_loop().create_future()
        self._send(BaseCommand.SEND, "send", entry, producer_id=number, sequence_id=sequence)
        return future

    def flow(self, number: int, permits: int) -> None:
        """Grant a consumer permits."""
        self._send(BaseCommand.FLOW, "flow", consumer_id=number, messagePermits=permits)

    def acknowledge(self, number: int, message_id: MessageIdData) -> None:
        """Acknowledge a message."""
        self._send(BaseCommand.ACK, "ack", consumer_id=number, ack_type="Individual", message_id=[message_id])

    async def acknowledge_durably(self, number: int, message_ids: Sequence[MessageIdData]) -> None:
        """Acknowledge messages, and wait until that is durable."""
        await self._ask(BaseCommand.ACK, "ack", consumer_id=number, ack_type="Individual", message_id=message_ids)

    def stall(self) -> None:
        """Read nothing more of what the broker sends."""
        self._transport.pause_reading()

    def close(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _send(self, kind: int, field: str, payload: bytes = b"", **fields: Any) -> None:
        command = BaseCommand(type=cast("BaseCommand.Type.ValueType", kind))
        body = getattr(command, field)
        body.SetInParent()
        body.MergeFrom(type(body)(**fields))
        data = command.SerializeToString()
        head = (len(data) + 4 + len(payload)).to_bytes(4, "big") + len(data).to_bytes(4, "big")
        self._transport.write(head + data + payload)

    # -- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what waits."""
        self.lost = True
        for future in (self._connected, *self._requests.values(), *self._receipts.values()):
            if not future.done():
                future.set_exception(ConnectionError("the broker is gone"))
                future.exception()  # nobody may wait for it

    def data_received(self, data: bytes) -> None:
        """Take frames apart."""
        data, at = self._buffer + data, 0
        while len(data) - at >= 4:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            start = at + 8
            split = start + int.from_bytes(data[at + 4 : start], "big")
            self._take(BaseCommand.FromString(data[start:split]), data[split:end])
            at = end
        self._buffer = data[at:]

    def _take(self, command: BaseCommand, payload: bytes) -> None:
        kind = command.type
        if kind == BaseCommand.MESSAGE:
            self._on_message(command.message.consumer_id, command.message.message_id, payload)
        elif kind == BaseCommand.SEND_RECEIPT:
            receipt = command.send_receipt
            self._receipts.pop((receipt.producer_id, receipt.sequence_id)).set_result(None)
        elif kind == BaseCommand.PING:
            self._send(BaseCommand.PONG, "pong")
        elif kind == BaseCommand.CONNECTED:
            self._connected.set_result(None)
        elif kind in (BaseCommand.CLOSE_PRODUCER, BaseCommand.CLOSE_CONSUMER):
            self.closed_by_broker += 1
        elif kind in _ANSWERS:
            self._answer(getattr(command, _ANSWERS[kind]), failed=kind == BaseCommand.ERROR)

    def _answer(self, answer: Any, *, failed: bool) -> None:
        future = self._requests.pop(answer.request_id)
        if future.done():
            return
        if failed or (isinstance(answer, CommandLookupTopicResponse | CommandAckResponse) and answer.HasField("error")):
            future.set_exception(RequestFailed(answer.message))
        else:
            future.set_result(answer)


def entry_of(payload: bytes, sequence: int, now_ms: int) -> bytes:
    """A message as clients send it: checksum, metadata, payload."""
    metadata = MessageMetadata(producer_name="bench", sequence_id=sequence, publish_time=now_ms)
    data = metadata.SerializeToString()
    checked = len(data).to_bytes(4, "big") + data + payload
    return b"\x0e\x01" + google_crc32c.value(checked).to_bytes(4, "big") + checked


def payload_of(entry: bytes) -> bytes:
    """The payload of an entry of `entry_of`."""
    return entry[10 + int.from_bytes(entry[6:10], "big") :]
