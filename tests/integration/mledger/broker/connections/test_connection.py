"""Clients that take nothing of what they are sent, or are gone at once."""

import asyncio
import math
import socket
import ssl
import struct

import pytest

from mledger.broker.connections import request_turns
from mledger.broker.connections.connection import UNREAD_BUFFER, BrokerConnection
from mledger.broker.connections.read_turns import LARGEST, SMALLEST
from mledger.broker.connections.requests.handlers import HANDLERS
from mledger.pb import PulsarApi_pb2 as pb
from mledger.pb.PulsarApi_pb2 import BaseCommand as Type
from tests.support.aio import run
from tests.support.brokers.served_broker import RawClient, served
from tests.support.certificates import certify

REQUESTS = 400
PADDING = 4000 * "p"
NAME = "persistent://no-tenant/" + 200_000 * "n"


def test_a_client_that_falls_silent_is_gone_although_it_has_not_taken_what_was_written(broker_url):
    async def main():
        async with served(broker_url, "keepAliveIntervalSeconds=1") as broker:
            client = await broker.connect()
            await client.producer()
            (connection,) = broker.broker.connections
            connection.write(bytes(64 << 20))  # more than the system takes
            await asyncio.shield(connection.lost)
            (topic,) = broker.broker.topics.open
            assert not list(topic.producers)
            client.close()

    run(main())


def test_no_more_requests_are_read_of_a_client_that_reads_no_answers(broker_url):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            (connection,) = broker.broker.connections
            for number in range(REQUESTS):
                client.send(Type.LOOKUP, "lookupTopic", topic=NAME, request_id=number)
            while not connection.unread and client.writer.transport.get_write_buffer_size():
                await asyncio.sleep(0)
            assert UNREAD_BUFFER < connection.unread < 2 * UNREAD_BUFFER
            answered = {(await client.expect("lookupTopicResponse")).request_id for _ in range(REQUESTS)}
            assert answered == set(range(REQUESTS))
            assert not connection.unread
            client.close()

    run(main())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for a broker."""
    return certify(tmp_path_factory.mktemp("certificates"))


def share_reads(broker):
    """From now on each client has the least part of what is read at a time, as if many sent."""
    reads = broker.reads
    reads.buffer, reads._until_s = reads.whole[:SMALLEST], math.inf


def test_all_that_a_client_sends_before_it_is_gone_is_served_in_its_turns(broker_url, topic):
    """It gets no answers, which its system would answer with an end of the connection once it is gone."""

    async def main():
        async with served(broker_url) as broker:
            publisher = await broker.connect()
            await publisher.producer(topic=topic)
            positions = await publisher.publish_all(*(b"%d" % number for number in range(LARGEST // len(PADDING))))
            client = await broker.connect()
            await client.subscribe(topic=topic)
            share_reads(broker.broker)
            for position in positions:
                client.ack(position, properties=[pb.KeyLongValue(key=PADDING, value=0)])
            client.writer.close()
            await client.writer.wait_closed()
            (served_topic,) = broker.broker.topics.open
            while served_topic.managed_ledger.open_cursors["sub"].backlog:
                await asyncio.sleep(0)

    run(main())


def test_all_that_a_client_sends_encrypted_before_it_is_gone_is_served(broker_url, topic, certificate):
    """All of it is read at once, before the first receipt: held, it would be dropped with the connection."""

    async def main():
        server_side, client_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl._create_unverified_context()
        server_side.load_cert_chain(certificate.certificate, certificate.key)
        async with served(broker_url) as broker:
            server = await asyncio.get_running_loop().create_server(
                lambda: BrokerConnection(broker.broker, HANDLERS), "127.0.0.1", ssl=server_side
            )
            port = server.sockets[0].getsockname()[1]
            client = RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=client_side))
            client.send(Type.CONNECT, "connect", client_version="raw", protocol_version=21)
            await client.expect("connected")
            await client.producer(topic=topic)
            share_reads(broker.broker)
            sent = [b"%04d" % number * 1000 for number in range(LARGEST // 4096)]
            for payload in sent:
                client.publish(payload)
            client.close()
            other = await broker.connect()
            await other.subscribe(topic=topic, permits=1000)
            assert [each.payload for each in await other.messages(len(sent))] == sent
            server.close()

    run(main())


def test_requests_that_wait_for_their_turns_are_served_in_order(broker_url, topic, monkeypatch):
    """Here each has a turn of its own."""
    monkeypatch.setattr(request_turns, "TURN_S", -1.0)

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, permits=10)
            sent = await client.publish_all(*(b"%d" % number for number in range(10)))
            assert [each.position for each in await client.messages(10)] == sent
            for position in sent:
                client.ack(position)
                client.flow(1)
            await client.ack_durably(sent[-1])
            (opened,) = broker.broker.topics.open
            assert opened.subscriptions.get("sub").backlog == 0
            for _ in range(100):
                client.flow(1)
            client.send(Type.SEND, "send", payload=b"", producer_id=99, sequence_id=0)  # there is no such producer
            await client.closed()

    run(main())


def test_a_client_that_is_gone_before_it_is_accepted_is_no_failure(broker_url):
    async def main():
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with served(broker_url) as broker:
            with socket.create_connection(("127.0.0.1", broker.port)) as health_check:
                health_check.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            client = await broker.connect()
            client.close()
        assert not failures

    run(main())


def test_a_connection_that_is_being_closed_is_not_closed_again(broker_url, caplog):
    caplog.set_level("INFO")

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            (connection,) = broker.broker.connections
            for _ in range(2):
                connection.close("of the test")
            await client.closed()
            assert caplog.text.count("connection_closed") == 1

    run(main())
