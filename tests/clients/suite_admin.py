"""The requests of Pulsar's admin REST API that a client's own tests make, for a broker whose API only shows figures.

Partitioned topics and a namespace's policies are written as our commands and Pulsar's write them. Pulsar's own
`compact-topic` compacts topics. All else is passed on to the broker.
"""

import asyncio
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mledger.admin.partitions import create_partitioned_topic
from mledger.errors import TopicExists
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S
from tests.support.java.pulsar_broker import BrokerFailed, PulsarProcess, build

POLICIES = {"deduplication": "deduplicationEnabled", "schemaCompatibilityStrategy": "schema_compatibility_strategy"}
"""What requests call a policy of a namespace, and its name in the policies' node."""
_BUNDLES = {"boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"], "numBundles": 4}
_TOPIC = re.compile(r"/admin/v2/persistent/([^/]+/[^/]+/[^/]+)/(partitions|compaction)")
_NAMESPACE = re.compile(r"/admin/v2/namespaces/([^/]+/[^/]+)/(\w+)")


class SuiteAdmin:
    """Serves at a free port until it is closed. A context."""

    def __init__(self, metadata_url: str, broker_port: int, broker_http: int, directory: Path) -> None:
        """`broker_http` is where the broker shows figures; compactions have their logs in `directory`."""
        self._metadata_url, self._broker_port, self._broker_http = metadata_url, broker_port, broker_http
        self._directory = directory
        self._compactions: dict[str, str] = {}
        admin = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                """Show."""
                self._answer(lambda: admin._shown(self.path))

            def do_PUT(self) -> None:
                """Change."""
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._answer(lambda: admin._changed(self.path, body))

            do_POST = do_PUT  # noqa: N815 - the name that the library calls

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def _answer(self, act: Callable[[], tuple[int, bytes]]) -> None:
                status, body = act()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="admin of a suite")

    @property
    def port(self) -> int:
        """Where it serves."""
        return int(self._server.server_address[1])

    def __enter__(self) -> "SuiteAdmin":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _shown(self, path: str) -> tuple[int, bytes]:
        of_topic = _TOPIC.fullmatch(path)
        if of_topic and of_topic[2] == "compaction":
            return HTTPStatus.OK, json.dumps({"status": self._compactions.get(of_topic[1], "NOT_RUN")}).encode()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._broker_http}{path}", timeout=HANG_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def _changed(self, path: str, body: bytes) -> tuple[int, bytes]:
        of_topic, of_namespace = _TOPIC.fullmatch(path), _NAMESPACE.fullmatch(path)
        if of_topic and of_topic[2] == "partitions":
            return self._in_store(lambda store: _create(store, of_topic[1], int(body)))
        if of_topic:
            self._compactions[of_topic[1]] = "RUNNING"
            threading.Thread(target=self._compact, args=(of_topic[1],)).start()
            return HTTPStatus.NO_CONTENT, b""
        if of_namespace and of_namespace[2] in POLICIES:
            return self._in_store(lambda store: _set(store, of_namespace[1], POLICIES[of_namespace[2]], body))
        return HTTPStatus.NOT_FOUND, b"{}"

    def _in_store(self, change: Callable[[MetadataStore], Any]) -> tuple[int, bytes]:
        async def main() -> None:
            async with await open_store(self._metadata_url) as store:
                await change(store)

        try:
            asyncio.run(main())
        except TopicExists as error:
            return HTTPStatus.CONFLICT, json.dumps({"reason": str(error)}).encode()
        return HTTPStatus.NO_CONTENT, b""

    def _compact(self, topic: str) -> None:
        name = topic.rpartition("/")[2]
        process = PulsarProcess(build(), self._directory, name, heap_mb=128)
        zookeeper = self._metadata_url.removeprefix("zk://")
        configuration = self._directory / f"{name}.conf"
        configuration.write_text(
            f"metadataStoreUrl=zk:{zookeeper}\nconfigurationMetadataStoreUrl=zk:{zookeeper}\nclusterName=standalone\n"
            f"advertisedAddress=127.0.0.1\nbrokerServicePort={self._broker_port}\nwebServicePort={self._broker_http}\n"
            "managedLedgerDefaultEnsembleSize=3\nmanagedLedgerDefaultWriteQuorum=3\nmanagedLedgerDefaultAckQuorum=2\n"
        )
        try:
            process.launch(
                "org.apache.pulsar.compaction.CompactorTool",
                *("--broker-conf", configuration, "--topic", f"persistent://{topic}"),
            )
            process.finish()
        except BrokerFailed:
            self._compactions[topic] = "ERROR"
        else:
            self._compactions[topic] = "SUCCESS"


async def _create(store: MetadataStore, topic: str, partitions: int) -> None:
    await create_partitioned_topic(store, f"persistent://{topic}", partitions)


async def _set(store: MetadataStore, namespace: str, name: str, value: bytes) -> None:
    path = f"{NAMESPACE_POLICIES}/{namespace}"
    try:
        node = await store.get(path)
    except NodeNotFound:
        policies = {"bundles": _BUNDLES, name: json.loads(value)}
        await store.create(path, json.dumps(policies).encode(), parents=True)
    else:
        await store.put(path, json.dumps({**json.loads(node.data), name: json.loads(value)}).encode(), node.version)
