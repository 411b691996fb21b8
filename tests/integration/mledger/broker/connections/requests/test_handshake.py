"""The handshake of a broker with authentication, under hostile clients on raw connections."""

import time

import jwt
import pytest
from passlib.hash import apr_md5_crypt

from mledger.broker.protocol.receiver import LARGEST_CONNECT
from mledger.pb import PulsarApi_pb2 as pb
from mledger.pb.PulsarApi_pb2 import BaseCommand as Type
from tests.support.aio import run
from tests.support.brokers.served_broker import TOPIC, served

SECRET = b"s" * 32
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
TOKENS = (
    "authenticationEnabled=true",
    f"authenticationProviders={PROVIDER}Token",
    f"tokenSecretKey=data:,{SECRET.decode()}",
    "authenticationRefreshCheckSeconds=1",
)
CONNECT = {"client_version": "raw", "protocol_version": 21}


def shown(role="app", **claims):
    return {"auth_method_name": "token", "auth_data": jwt.encode({"sub": role, **claims}, SECRET, "HS256").encode()}


def of_consumer(client):
    client.send(Type.SUBSCRIBE, "subscribe", topic=TOPIC, subscription="s", subType=0, consumer_id=1, request_id=1)


FIRST = {
    "SEND": lambda client: client.publish(b"payload"),
    "ACK": lambda client: client.ack(),
    "FLOW": lambda client: client.flow(1),
    "PING": lambda client: client.send(Type.PING, "ping"),
    "LOOKUP": lambda client: client.send(Type.LOOKUP, "lookupTopic", topic=TOPIC, request_id=1),
    "SUBSCRIBE": of_consumer,
    "AUTH_RESPONSE": lambda client: client.send(Type.AUTH_RESPONSE, "authResponse", client_version="raw"),
    "frame": lambda client: client.writer.write((LARGEST_CONNECT + 1).to_bytes(4, "big")),
    "nonsense": lambda client: client.writer.write(b"GET / HTTP/1.1\r\n\r\n"),
}


@pytest.mark.parametrize("first", FIRST)
def test_nothing_is_served_before_the_client_is_connected(broker_url, first):
    async def main():
        async with served(broker_url, *TOKENS) as broker:
            client = await broker.open()
            FIRST[first](client)
            await client.closed()
            assert not broker.broker.topics.open

    run(main())


def test_nothing_is_served_while_credentials_are_checked(broker_url, tmp_path):
    """A password is checked on a thread: what follows it at once comes before the answer."""
    (tmp_path / "users").write_text(f"app:{apr_md5_crypt.hash('password')}\n")
    settings = ("authenticationEnabled=true", f"authenticationProviders={PROVIDER}Basic")

    async def main():
        async with served(broker_url, *settings, f"basicAuthConf={tmp_path / 'users'}") as broker:
            for then in (of_consumer, lambda each: each.send(Type.CONNECT, "connect", **CONNECT)):
                client = await broker.open()
                client.send(Type.CONNECT, "connect", auth_method_name="basic", auth_data=b"app:password", **CONNECT)
                then(client)
                await client.closed()
            assert not broker.broker.topics.open

    run(main())


def test_a_refused_client_is_told_why_and_closed(broker_url):
    async def main():
        async with served(broker_url, *TOKENS) as broker:
            for fields in ({}, shown(exp=1), {"auth_method_name": "token", "auth_data": b"\xff"}):
                client = await broker.open()
                client.send(Type.CONNECT, "connect", **CONNECT, **fields)
                answer = await client.expect("error")
                assert answer.error == pb.AuthenticationError
                await client.closed()

    run(main())


def test_credentials_that_nobody_asked_for_end_the_connection(broker_url):
    async def main():
        async with served(broker_url, *TOKENS) as broker:
            client = await broker.connect(**shown())
            client.send(Type.AUTH_RESPONSE, "authResponse", response=pb.AuthData(**shown()))
            await client.closed()

    run(main())


def test_a_second_connect_ends_the_connection(broker_url):
    async def main():
        async with served(broker_url, *TOKENS) as broker:
            client = await broker.connect(**shown())
            client.send(Type.CONNECT, "connect", **CONNECT, **shown("admin"))
            await client.closed()

    run(main())


@pytest.mark.parametrize("answer", ["none", "expired", "other role"])
def test_a_client_that_does_not_renew_its_token_is_disconnected(broker_url, answer):
    renews = pb.FeatureFlags(supports_auth_refresh=True)
    answers = {"expired": shown(exp=1), "other role": shown("admin")}

    async def main():
        async with served(broker_url, *TOKENS) as broker:
            client = await broker.connect(feature_flags=renews, **shown(exp=int(time.time()) + 2))
            challenge = await client.expect("authChallenge")
            assert challenge.challenge.auth_method_name == "token"
            if answer in answers:
                client.send(Type.AUTH_RESPONSE, "authResponse", response=pb.AuthData(**answers[answer]))
                assert (await client.expect("error")).error == pb.AuthenticationError
            await client.closed()

    run(main())


def test_a_client_that_cannot_renew_its_token_is_disconnected(broker_url):
    async def main():
        async with served(broker_url, *TOKENS) as broker:
            client = await broker.connect(**shown(exp=int(time.time()) + 2))
            await client.closed()

    run(main())
