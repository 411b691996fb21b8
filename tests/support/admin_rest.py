"""Brokers on the test's own loop that serve HTTP, and requests of their admin API."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from mledger.broker.admin_rest.admin_api import AdminApi
from mledger.broker.admin_rest.authorization import Authorize, allow_all
from mledger.broker.admin_rest.http_server import AdminHttpServer
from mledger.broker.process.http_lookup import HttpLookup
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.metastore.runtime.network.listening_port import bind_listener
from tests.support.aio import HANG_S
from tests.support.brokers.served_broker import Served, served
from tests.support.http import HttpAnswer


class WebServed:
    """A broker as `served`, and its port of HTTP."""

    def __init__(self, broker: Served, web_port: int) -> None:
        self.broker, self.cluster, self.port = broker.broker, broker.cluster, broker.port
        self.connect = broker.connect
        self.web_port = web_port

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> HttpAnswer:
        """The answer of the admin API; `path` is what follows /admin/v2/."""
        return await ask(self.web_port, method, f"/admin/v2/{path}", body, **headers)

    async def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed, None without a body."""
        answer = await self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.json if answer.body else None

    async def done(self, method: str, path: str, body: Any = None) -> None:
        """Send a request that must succeed."""
        answer = await self.ask(method, path, body)
        assert answer.status in (200, 204), (method, path, answer)

    async def followed(self, topic: BrokerTopic, method: str, path: str, body: Any = None) -> None:
        """Send a request that changes a policy of an open topic, and wait until that was told."""
        told = asyncio.Event()
        topic.managed_ledger.on_policies(lambda _: told.set())
        await self.done(method, path, body)
        await told.wait()

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the reason of a request that must be refused."""
        answer = await self.ask(method, path, body)
        assert answer.status >= 400, (method, path, answer)
        return answer.status, answer.json["reason"]


async def ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> HttpAnswer:
    """Send one request to a server on this machine; `body` as it is if it is bytes, else as JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(len(data)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data)
    async with asyncio.timeout(HANG_S):
        head, _, found = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *rest = head.decode().split("\r\n")
    names = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return HttpAnswer(int(first.split()[1]), names, found.decode(errors="replace"))


@contextlib.asynccontextmanager
async def web_served(
    url: str,
    *settings: str,
    authorize: Authorize = allow_all,
    policy_cluster: str | None = "standalone",
    **changes: Any,
) -> AsyncIterator[WebServed]:
    """A broker of the cluster at `url` that serves HTTP at `web_port`; `changes` are those of its topics' settings."""
    listener = bind_listener("127.0.0.1", 0)
    web_port = listener.getsockname()[1]
    async with served(url, *settings, web_port=web_port, policy_cluster=policy_cluster, **changes) as broker:
        api = AdminApi(broker.broker, broker.cluster, authorize)
        server = AdminHttpServer(api.answer, {}, HttpLookup(broker.broker).below)
        server.start_on(listener)
        try:
            yield WebServed(broker, web_port)
        finally:
            await server.close()
            listener.close()
