"""Strangers at a broker with TLS, tokens and roles: wrong credentials, damaged frames, hostile requests.

None may get, create or learn anything; the broker refuses each by its code and serves on.
"""

import asyncio
import itertools
import json
import re
import shutil
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import psutil
import pulsar
from google.protobuf.message import DecodeError

import mledger
from mledger.pb import PulsarApi_pb2 as pb
from tests.faults.soak.progress import Progress
from tests.faults.soak.report import Row, mib
from tests.fuzz import corpus
from tests.fuzz.mutate import Mutator
from tests.support.aio import HANG_S
from tests.support.brokers.broker_process import exchange
from tests.support.certificates import certify
from tests.support.ports import free_late_port

SECRET, FOREIGN = b"the key of this broker's tokens.", b"the key of another one's tokens."
AT_ONCE = 32
SILENCE_S = 0.25
"""A broker that says nothing for so long waits for the rest of a frame."""
ANSWER_S = 60.0
FRAMES = 4
WARM_SHARE = 0.2
MOST_GROWTH = 48 << 20
TLS_ALERT = 0x15
REQUESTS = (
    b"GET /admin/v2/tenants HTTP/1.1\r\nHost: h\r\n",
    b"PUT /admin/v2/tenants/stranger HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2\r\n",
    b"GET /admin/v2/namespaces/public HTTP/1.1\r\nHost: h\r\n",
    b"PUT /admin/v2/namespaces/public/stranger HTTP/1.1\r\nHost: h\r\n",
    b"POST /admin/v2/namespaces/public/default/retention HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n",
    b"PUT /admin/v2/persistent/public/default/stranger HTTP/1.1\r\nHost: h\r\n",
    b"DELETE /admin/v2/persistent/public/default/kept?force=true HTTP/1.1\r\nHost: h\r\n",
    b"GET /admin/v2/persistent/public/default/kept/stats HTTP/1.1\r\nHost: h\r\n",
    b"GET /admin/v2/persistent/public/default/kept/subscription/sub/position/1 HTTP/1.1\r\nHost: h\r\n",
    b"POST /admin/v2/persistent/public/default/kept/subscription/sub/skip_all HTTP/1.1\r\nHost: h\r\n",
    b"GET /admin/v2/schemas/public/default/kept/schema HTTP/1.1\r\nHost: h\r\n",
)
HARMLESS = {"connected", "ping", "pong", "authChallenge"}
STATUS = re.compile(rb"HTTP/(?:0\.9|1\.[01]) (\d\d\d) ")
REFUSAL = re.compile(r"4\d\d|501|505")
TO_THE_CONSOLE = b" 303 See Other\r\nServer: mledger\r\nLocation: /console\r\n"
"""The answer to a request that was damaged to ask for `/`: the console, which asks who it is."""
REFUSED = {"error", "send_error"}
CONNECTS = {"connect", "connected"}
"""What ends a connection that is connected, so that nothing after it is read."""


def token(role: str, key: bytes = SECRET, **claims: Any) -> str:
    """A token of a role."""
    return jwt.encode({"sub": role, **claims}, key, "HS256")


WRONG = (
    "",
    "no token",
    token("admin", FOREIGN),
    token("admin", exp=1),
    token("admin", nbf=4_102_444_800),
    jwt.encode({"sub": "admin"}, None, "none"),
    jwt.encode({"role": "admin"}, SECRET, "HS256"),
)


@dataclass
class StrangersSummary:
    """What was sent, what came back, and what should not have."""

    sent: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    growth: int = 0
    seconds: float = 0.0


def settings_of(directory: Path, tls_port: int) -> dict[str, str]:
    """The settings of the broker: its key and certificates are in `directory`."""
    certified = certify(directory / "certificates")
    (directory / "token.key").write_bytes(SECRET)
    provider = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    return {
        "brokerServicePortTls": str(tls_port),
        "tlsCertificateFilePath": str(certified.certificate),
        "tlsKeyFilePath": str(certified.key),
        "authenticationEnabled": "true",
        "authenticationProviders": f"{provider}Token,{provider}Tls",
        "tlsTrustCertsFilePath": str(certified.authority),
        "tokenSecretKey": f"file://{directory / 'token.key'}",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
    }


class Strangers:
    """All that they do, each input made from `seed`."""

    def __init__(self, port: int, tls_port: int, web_port: int, seed: str) -> None:
        self._port, self._tls_port, self._web_port = port, tls_port, web_port
        frames = [each for each in corpus.pulsar_frames() if commands(each)[0][0] not in CONNECTS]
        self._frames, self._commands = Mutator(frames, seed), Mutator([command_in(each) for each in frames], seed)
        self._connects = Mutator([command_in(connect(token("stranger")))], seed)
        self._requests = Mutator(REQUESTS, seed)
        self.found = StrangersSummary()
        self.ways: tuple[Callable[[], Awaitable[None]], ...] = (
            self._without_credentials,
            self._with_wrong_credentials,
            self._without_a_right,
            self._over_http,
            self._in_clear_to_tls,
        )

    async def _without_credentials(self) -> None:
        damaged = framed(self._connects.make()) if self._frames.below(2) else b""
        self._judge("before CONNECT", await self._say(self._port, damaged + self._damaged()), HARMLESS)

    async def _with_wrong_credentials(self) -> None:
        wrong = WRONG[self._frames.below(len(WRONG))]
        answers = commands(await self._say(self._port, connect(wrong), patience_s=ANSWER_S))
        self.found.sent["wrong credentials"] += 1
        if [(kind, body.error) for kind, body in answers] != [("error", pb.AuthenticationError)]:
            self._blame("wrong credentials", wrong, answers)

    async def _without_a_right(self) -> None:
        data = self._damaged() + PING  # whose first bytes may end a frame that was cut off
        said = await self._say(self._port, connect(token("stranger")), data)
        self._judge("a role without rights", said, HARMLESS, closings(data))

    async def _over_http(self) -> None:
        way = self._frames.below(3)
        credentials = ("", token("admin", FOREIGN), token("stranger"))[way]
        head = self._requests.pick() if self._frames.below(2) else self._requests.make()
        header = f"Authorization: Bearer {credentials}\r\n" if credentials else ""
        body = b"{}" if b"Content-Length" in head else b""
        request = head + header.encode() + b"Connection: close\r\n\r\n" + body
        said = await self._say(self._web_port, request, patience_s=ANSWER_S)
        self.found.sent["HTTP"] += 1
        answer = STATUS.match(said)
        status = answer[1].decode() if answer else "cut off"
        self.found.answers[f"HTTP {status}"] += 1
        refused = REFUSAL.fullmatch(status) or TO_THE_CONSOLE in said
        if said and (answer is None or not refused):
            self._blame("HTTP", head, said)
        self._check_secrets("HTTP", said)

    async def _in_clear_to_tls(self) -> None:
        self.found.sent["in clear to the TLS port"] += 1
        said = await self._say(self._tls_port, self._damaged())
        if said and said[0] != TLS_ALERT:
            self._blame("in clear to the TLS port", said, "no alert of TLS")

    def _damaged(self) -> bytes:
        """Some frames: whole ones, damaged ones, and damaged commands in frames of the right size."""
        return b"".join(self._frame() for _ in range(1 + self._frames.below(FRAMES)))

    def _frame(self) -> bytes:
        match self._frames.below(4):
            case 0:
                return self._frames.pick()
            case 1:
                return self._frames.make()
            case _:
                return framed(self._commands.make())

    def _judge(self, way: str, said: bytes, harmless: set[str], closings: Container[int] = ()) -> None:
        self.found.sent[way] += 1
        for kind, body in commands(said):
            if kind == "success" and body.request_id in closings:  # of what was not open
                self.found.answers["close of nothing"] += 1
                continue
            code = refusal_in(kind, body)
            self.found.answers[f"{kind} {code}" if code else kind] += 1
            if not code and kind not in harmless:
                self._blame(way, kind, body)
        self._check_secrets(way, said)

    def _check_secrets(self, way: str, said: bytes) -> None:
        if SECRET in said or b"Traceback" in said or b'File "' in said:
            self._blame(way, "it shows what is inside", said)

    def _blame(self, way: str, *what: object) -> None:
        self.found.bad.append(f"{way}: {', '.join(repr(each)[:300] for each in what)}")

    async def _say(self, port: int, *parts: bytes, patience_s: float = SILENCE_S) -> bytes:
        """Send parts, each after an answer to the last; what comes back until the broker ends or says no more."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        said = b""
        try:
            for part in parts:
                writer.write(part)
                said += await self._heard(
                    reader, part is not parts[-1], ANSWER_S if part is not parts[-1] else patience_s
                )
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
        return said

    async def _heard(self, reader: asyncio.StreamReader, more: bool, patience_s: float) -> bytes:
        """What comes until the broker ends, is silent or, if there is `more` to send, has answered."""
        said = b""
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    data = await reader.read(1 << 16)
            except TimeoutError:
                return said
            said += data
            if not data or more or said.endswith(PONG):
                return said


def framed(data: bytes) -> bytes:
    """A command's bytes as they are sent."""
    return (len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data


def frame(command: pb.BaseCommand) -> bytes:
    """A command as it is sent."""
    return framed(command.SerializeToString())


def command_in(frame: bytes) -> bytes:
    """The bytes of a frame's command."""
    return frame[8 : 8 + int.from_bytes(frame[4:8], "big")]


def connect(shown: str) -> bytes:
    """A CONNECT that shows a token; none if it is empty."""
    command = pb.BaseCommand(type=pb.BaseCommand.CONNECT)
    command.connect.client_version, command.connect.protocol_version = "stranger", 21
    if shown:
        command.connect.auth_method_name, command.connect.auth_data = "token", shown.encode()
    return frame(command)


PING = frame(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))
PONG = frame(pb.BaseCommand(type=pb.BaseCommand.PONG, pong=pb.CommandPong()))


def commands(said: bytes) -> list[tuple[str, Any]]:
    """The commands in whole frames, until one cannot be read: each field's name and its body."""
    found: list[tuple[str, Any]] = []
    while len(said) >= 8 and len(said) >= 4 + (size := int.from_bytes(said[:4], "big")):
        try:
            command = pb.BaseCommand.FromString(command_in(said))
        except DecodeError:
            break
        found += [(each.name, value) for each, value in command.ListFields() if each.name != "type"]
        said = said[4 + size :]
    return found


def closings(sent: bytes) -> set[int]:
    """The requests that close a producer or a consumer."""
    return {body.request_id for kind, body in commands(sent) if kind in ("close_producer", "close_consumer")}


def refusal_in(kind: str, body: Any) -> str:
    """The error code that an answer has, empty if it has none."""
    for name in ("error", "error_code"):
        if name in body.DESCRIPTOR.fields_by_name and (kind in REFUSED or body.HasField(name)):
            return str(pb.ServerError.Name(getattr(body, name)))
    return ""


def asked(url: str, path: str) -> Any:
    """What the administrator sees."""
    request = urllib.request.Request(f"{url}{path}", headers={"Authorization": f"Bearer {token('admin')}"})
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return json.load(answer)


def seen(url: str) -> list[Any]:
    """What is there: tenants, namespaces and topics, and the backlog of the one that is served."""
    tenants = asked(url, "/admin/v2/tenants")
    namespaces = [each for tenant in tenants for each in asked(url, f"/admin/v2/namespaces/{tenant}")]
    topics = [each for namespace in namespaces for each in asked(url, f"/admin/v2/persistent/{namespace}")]
    stats = asked(url, "/admin/v2/persistent/public/default/kept/stats")
    return [tenants, namespaces, topics, stats["msgInCounter"], stats["subscriptions"]["sub"]["msgBacklog"]]


async def _all(strangers: Strangers, inputs: int, progress: Progress, warm: Callable[[], None]) -> None:
    numbers = itertools.count()

    async def one_after_the_other() -> None:
        while (number := next(numbers)) < inputs:
            async with asyncio.timeout(HANG_S):
                await strangers.ways[number % len(strangers.ways)]()
            if number == int(inputs * WARM_SHARE):
                warm()
            progress.step(f"{strangers.found.sent.total()} of {inputs} inputs")

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))


def run_strangers(where: Path | None, *, inputs: int, seed: int) -> StrangersSummary:
    """Have strangers send so many inputs to a standalone."""
    directory = Path(tempfile.mkdtemp(prefix="mledger-soak-", dir=where))
    progress, tls_port = Progress("strangers"), free_late_port()
    try:
        with mledger.start_standalone_process(directory / "data", settings=settings_of(directory, tls_port)) as broker:
            process = psutil.Process(broker.pid)
            admin = pulsar.AuthenticationToken(token("admin"))
            assert exchange(broker.service_url, "persistent://public/default/kept", authentication=admin) == b"hello"
            before, files, warm_size = seen(broker.admin_url), process.num_fds(), [0]

            def warm() -> None:
                warm_size[0] = process.memory_info().rss

            ports = [int(url.rpartition(":")[2]) for url in (broker.service_url, broker.admin_url)]
            strangers = Strangers(ports[0], tls_port, ports[1], str(seed))
            asyncio.run(_all(strangers, inputs, progress, warm))
            found = strangers.found
            found.growth = process.memory_info().rss - warm_size[0]
            found.bad += _after(broker, process, before, files)
            if found.growth > MOST_GROWTH:
                found.bad.append(f"memory grew by {mib(found.growth)}")
            assert exchange(broker.service_url, "persistent://public/default/other", authentication=admin) == b"hello"
            found.bad += _logged(broker.log.read_text(errors="replace"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    found.seconds = progress.seconds
    return found


def _after(broker: mledger.StandaloneProcess, process: psutil.Process, before: list[Any], files: int) -> list[str]:
    """What has changed, or is left of connections that have ended."""
    if not broker.running:
        return [f"the broker has ended: {broker.log.read_text()[-2000:]}"]
    bad = []
    if (after := seen(broker.admin_url)) != before:
        bad.append(f"there was {before}, and now is {after}")
    deadline = time.monotonic() + HANG_S
    while (left := process.num_fds()) > files + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    if left > files + 2:
        bad.append(f"{left} files are open instead of {files}")
    return bad


def _logged(log: str) -> list[str]:
    """What a log must not have."""
    secrets = [SECRET.decode(), FOREIGN.decode(), *(each for each in WRONG if each.count(".") == 2), token("stranger")]
    bad = ["a secret is in the log" for secret in secrets if secret in log]
    lines = [line for line in log.splitlines() if "Traceback" in line or "level=error" in line]
    return bad + [f"the log has {line[:400]}" for line in lines[:5]]


def strangers_rows(found: StrangersSummary) -> tuple[list[Row], list[str]]:
    """The figures of a run, and what does not hold."""
    rows = [
        ("inputs", f"{found.sent.total():,}", ""),
        ("… of each kind", ", ".join(f"{kind} {count:,}" for kind, count in sorted(found.sent.items())), ""),
        ("answers", ", ".join(f"{kind} {count:,}" for kind, count in found.answers.most_common(12)), "refusals"),
        ("served, created, learnt or logged what they may not", f"{len(found.bad)}", "0"),
        ("memory that the broker took after the first fifth", mib(found.growth), f"≤ {mib(MOST_GROWTH)}"),
        ("time", f"{found.seconds:,.0f} s", ""),
    ]
    return rows, found.bad
