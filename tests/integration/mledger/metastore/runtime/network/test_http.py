import asyncio
import contextlib

from mledger.metastore.runtime.network.http import MOST_CONNECTIONS, HttpResponse, HttpServer
from tests.support.aio import run


async def hello(asked):
    return HttpResponse(b"hello " + asked.headers.get("x-name", "you").encode())


async def echo(asked):
    return HttpResponse(asked.path.encode())


async def broken(asked):
    raise RuntimeError("broken")


@contextlib.asynccontextmanager
async def served():
    server = HttpServer({"/hello": hello, "/broken": broken}, {"/below": echo})
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.close()


async def ask(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def status(answer):
    return int(answer.split()[1])


def test_a_path_is_answered_with_its_length_and_the_connection_ends():
    async def main():
        async with served() as port:
            answer = await ask(port, b"GET /hello?x=1 HTTP/1.1\r\nHost: x\r\nX-Name: Ann\r\n\r\n")
            assert status(answer) == 200
            assert b"Content-Length: 9\r\n" in answer
            assert answer.endswith(b"\r\n\r\nhello Ann")
            assert (await ask(port, b"HEAD /hello HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n")

    run(main())


def test_missing_forbidden_invalid_and_failing_requests_get_their_status():
    async def main():
        async with served() as port:
            for request, wanted in (
                (b"GET /other HTTP/1.1\r\n\r\n", 404),
                (b"POST /hello HTTP/1.1\r\n\r\n", 405),
                (b"GET hello HTTP/1.1\r\n\r\n", 400),
                (b"GET //[ HTTP/1.1\r\n\r\n", 400),
                (b"\x00\x01\x02\r\n\r\n", 400),
                (b"GET /broken HTTP/1.1\r\n\r\n", 500),
            ):
                assert status(await ask(port, request)) == wanted

    run(main())


def test_everything_below_a_path_is_answered_by_one_route():
    async def main():
        async with served() as port:
            assert (await ask(port, b"GET /below/a/b/?x=1 HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n/below/a/b")
            for outside in (b"/below", b"/belowground"):
                assert status(await ask(port, b"GET " + outside + b" HTTP/1.1\r\n\r\n")) == 404

    run(main())


def test_a_head_that_is_too_long_is_not_read_to_its_end():
    async def main():
        async with served() as port:
            assert await ask(port, b"GET /hello HTTP/1.1\r\n" + b"x: y\r\n" * 20_000) == b""

    with contextlib.suppress(ConnectionResetError):
        run(main())


def test_more_connections_than_the_limit_are_closed_at_once():
    async def main():
        async with served() as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
            for _, other in held:
                other.close()

    run(main())
