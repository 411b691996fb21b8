"""The HTTP server of a broker: what it refuses, and that nobody waits for its library at the start."""

import asyncio
import json
import subprocess
import sys

import pytest

from mledger.broker.admin_rest import http_server
from mledger.broker.admin_rest.http_server import AdminHttpServer
from mledger.broker.admin_rest.requests import AdminAnswer
from mledger.metastore.runtime.network.http import HttpResponse
from mledger.metastore.runtime.network.listening_port import bind_listener
from tests.support.admin_rest import ask
from tests.support.aio import HANG_S, run


def serving(test, answer=None):
    """Run `test` with the port of a server that answers with what it was asked."""

    async def echo(request):
        asked = {"path": request.path, "query": dict(request.query), "body": request.body.decode()}
        return AdminAnswer(body=json.dumps(asked).encode())

    async def fixed(_):
        return HttpResponse(b"fixed\n")

    async def main():
        listener = bind_listener("127.0.0.1", 0)
        server = AdminHttpServer(answer or echo, {"/fixed": fixed}, {"/below": fixed})
        server.start_on(listener)
        try:
            await test(listener.getsockname()[1])
        finally:
            await server.close()
            listener.close()

    run(main())


def test_a_request_arrives_as_it_was_sent():
    async def test(port):
        answer = await ask(port, "POST", "/admin/v2/a%2Fb/?x=1&y=%20", b"body")
        assert answer.json == {"path": "/admin/v2/a%2Fb", "query": {"x": "1", "y": " "}, "body": "body"}
        assert (await ask(port, "GET", "/fixed")).body == "fixed\n"
        assert (await ask(port, "GET", "/below/x")).body == "fixed\n"
        assert (await ask(port, "POST", "/fixed")).status == 405
        assert (await ask(port, "HEAD", "/fixed")).body == ""

    serving(test)


@pytest.mark.parametrize("token", ["x" * 9000, "secr\1et"])
def test_credentials_in_what_is_no_request_are_not_repeated(token):
    async def test(port):
        answer = await ask(port, "GET", "/x", Authorization=f"Bearer {token}")
        assert (answer.status, answer.json) == (400, {"reason": "this is no HTTP request"})

    serving(test)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/x", b"", {"Content-Length": str(6 << 20)}, 413),
        ("/x", b"x" * (6 << 20), {}, 413),
        ("/x", b"x", {"Content-Encoding": "gzip"}, 400),
        ("/x?" + "&".join(f"a{each}=1" for each in range(100)), b"", {}, 400),
        ("/" + "x" * 20_000, b"", {}, 400),
        ("/x", b"", {"X": "x" * 20_000}, 400),
        ("*", b"", {}, 400),
        ("http://other/x", b"", {}, 400),
    ],
)
def test_a_hostile_request_is_refused(path, body, headers, status):
    async def test(port):
        try:
            assert (await ask(port, "POST", path, body, **headers)).status == status
        except ConnectionError:  # the server answered, and closed the connection before it had read the whole body
            assert len(body) > 1 << 20
        assert (await ask(port, "GET", "/fixed")).status == 200

    serving(test)


def test_bytes_that_are_no_request_are_refused_and_not_logged(caplog):
    async def test(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /x HTTP/1.1\r\nAuthorization: Bearer the-token\0\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        assert (await ask(port, "GET", "/fixed")).status == 200

    serving(test)
    assert "http_request_refused" in caplog.text
    assert "the-token" not in caplog.text


def test_a_connection_that_sends_no_whole_request_is_cut(monkeypatch):
    monkeypatch.setattr(http_server, "RECEIVED_WITHIN_S", 0.2)
    monkeypatch.setattr(http_server, "_LOOK_EVERY_S", 0.05)

    async def test(port):
        for sent in (b"", b"GET / HTTP/1.1\r\nHost:", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            async with asyncio.timeout(HANG_S):
                answer = await reader.read()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
            writer.close()

    serving(test)


def test_requests_that_never_arrive_keep_nobody_out(monkeypatch, caplog):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)

    async def test(port):
        slow = []
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            slow.append(writer)
            assert (await ask(port, "GET", "/fixed")).status == 200
        for writer in slow:
            writer.transport.abort()
        assert (await ask(port, "GET", "/fixed")).status == 200

    serving(test)
    assert "http_connection_failed" not in caplog.text


@pytest.mark.parametrize("name", ["Authorization", "X-Original-Principal"])
def test_a_request_says_once_who_its_client_is(name):
    async def test(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /x HTTP/1.1\r\nHost: x\r\n{name}: me\r\n{name.lower()}: admin\r\n\r\n".encode())
        assert b" 400 " in await reader.readline()
        writer.close()

    serving(test)


def test_an_answer_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(http_server, "ANSWERED_WITHIN_S", 0.05)

    async def answer(_):
        await asyncio.Event().wait()

    async def test(port):
        found = await ask(port, "GET", "/x")
        assert (found.status, "not done within" in found.json["reason"]) == (503, True)

    serving(test, answer)


def test_a_failure_says_no_more_than_that_there_was_one():
    async def answer(_):
        raise RuntimeError("secret")

    async def test(port):
        found = await ask(port, "GET", "/x")
        assert (found.status, "secret" in found.body) == (500, False)

    serving(test, answer)


def test_headers_of_an_answer_cannot_begin_others():
    async def answer(_):
        return AdminAnswer(headers={"X-One": "a\r\nX-Two: b"})

    async def test(port):
        found = await ask(port, "GET", "/x")
        assert found.headers["x-one"] == "a??X-Two: b"
        assert "x-two" not in found.headers

    serving(test, answer)


def test_the_connection_that_is_idle_longest_makes_room_for_one_too_many(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)

    async def test(port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert (await ask(port, "GET", "/fixed")).status == 200
        async with asyncio.timeout(HANG_S):
            assert await held[0][0].read() == b""
        held[1][1].write(b"GET /fixed HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await held[1][0].readuntil(b"fixed\n")).startswith(b"HTTP/1.1 200")
        for _, writer in held:
            writer.close()

    serving(test)


def test_a_connection_too_many_is_closed_while_all_others_are_served(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 1)

    async def test(port):
        asked, go_on = asyncio.Event(), asyncio.Event()
        held_up.extend((asked, go_on))
        first = asyncio.ensure_future(ask(port, "GET", "/x"))
        await asked.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(HANG_S):
            assert await reader.read() == b""
        writer.close()
        go_on.set()
        assert (await first).status == 200

    held_up = []

    async def answer(_):
        asked, go_on = held_up
        asked.set()
        await go_on.wait()
        return AdminAnswer(body=b"done")

    serving(test, answer)


def test_bodies_that_arrive_at_once_have_a_limit_together(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_ARRIVING", 1000)

    async def test(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n" + bytes(1001))
        async with asyncio.timeout(HANG_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        writer.close()
        assert (await ask(port, "GET", "/fixed")).status == 200

    serving(test)


def test_a_connection_that_ended_makes_room_for_another(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)

    async def test(port):
        for _ in range(5):  # each by a connection of its own, as curl sends them
            assert (await ask(port, "GET", "/fixed")).status == 200

    serving(test)


def test_a_broker_starts_without_the_library():
    program = "import sys, mledger.broker.process.main; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_connection_that_a_browser_keeps_does_not_keep_the_server():
    kept = []

    async def test(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /fixed HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"fixed\n")).startswith(b"HTTP/1.1 200")
        kept.append(writer)

    serving(test)
    assert len(kept) == 1
