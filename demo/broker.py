"""The last act: `mledger standalone` under Pulsar's official client; the process dies, and every subscription goes on.

Each subscription must then receive what it had not acknowledged, in order, and nothing else.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import mledger
from demo import flights
from demo.machine import DemoFailed

TOPIC = "persistent://public/default/departures"
ROWS = 10_000
LAST = b"published after the restart"
RECEIVE_MS = 60_000
PENDING = 1000


@dataclass(frozen=True, slots=True)
class ClientSubscription:
    """A subscription and what it acknowledges: the first `rows` rows, without every `hole_every`th."""

    name: str
    what: str
    rows: int = 0
    hole_every: int = 0

    def acknowledges(self, row: int) -> bool:
        """Whether it acknowledges the row before the kill."""
        return row < self.rows and not (self.hole_every and row % self.hole_every == 0)


CLIENT_SUBSCRIPTIONS = (
    ClientSubscription("billing", "cumulative", 6000),
    ClientSubscription("audit", "one by one, every tenth left out", 8000, hole_every=10),
    ClientSubscription("archive", "nothing acknowledged"),
)


def clients_of_a_standalone(directory: Path, console: Console) -> list[str]:
    """Publish and acknowledge, kill the process with -9, start it again; returns what differs.

    DemoFailed, StandaloneError.
    """
    client_of = _official_client()
    payloads = [flights.encode(row) for row in itertools.islice(flights.rows(), ROWS)]
    started = time.perf_counter()
    with mledger.start_standalone_process(directory) as standalone:
        console.print(f"  mledger standalone, pid {standalone.pid}: ready in {time.perf_counter() - started:.2f} s")
        with client_of(standalone.service_url) as client:
            for each in CLIENT_SUBSCRIPTIONS:
                client.subscribe(TOPIC, each.name).close()
            _publish(client, payloads)
            console.print(f"  {ROWS:,} rows published to {TOPIC}", soft_wrap=True)
            for each in CLIENT_SUBSCRIPTIONS:
                _acknowledge(client, each)
        standalone.wait_until_durable(TOPIC)
        console.print(f"  kill -9 {standalone.pid}")
        standalone.kill()
        started = time.perf_counter()
        standalone.restart()
        console.print(f"  started again, pid {standalone.pid}: ready in {time.perf_counter() - started:.2f} s")
        differences = []
        with client_of(standalone.service_url) as client:
            _publish(client, [LAST])
            for each in CLIENT_SUBSCRIPTIONS:
                expected = [payload for row, payload in enumerate(payloads) if not each.acknowledges(row)]
                found = _difference(client, each, [*expected, LAST])
                differences += found
                if not found:
                    said = f"  {each.name:<8} ({each.what}): received the {len(expected):,} rows that were left"
                    console.print(said, soft_wrap=True)
        return differences


def _official_client() -> Callable[[str], Any]:
    """What makes a client of a service URL, which closes itself as a context. DemoFailed if it is not installed."""
    try:
        import pulsar
    except ImportError:
        raise DemoFailed("the package pulsar-client is not installed: run `make setup`") from None
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return lambda url: closing(pulsar.Client(url, logger=quiet))


def _publish(client: Any, payloads: Sequence[bytes]) -> None:
    """Publish, and wait until all is acknowledged."""
    producer = client.create_producer(
        TOPIC, batching_enabled=False, block_if_queue_full=True, max_pending_messages=PENDING
    )
    failed: list[str] = []

    def sent(result: Any, message_id: object) -> None:
        if result.name != "Ok":
            failed.append(result.name)

    for payload in payloads:
        producer.send_async(payload, sent)
    producer.flush()
    producer.close()
    if failed:
        raise DemoFailed(f"{len(failed):,} rows were not published: {failed[0]}")


def _acknowledge(client: Any, subscription: ClientSubscription) -> None:
    """Receive and acknowledge what the subscription acknowledges before the kill."""
    consumer = client.subscribe(TOPIC, subscription.name)
    for row, message in zip(range(subscription.rows), _messages(consumer), strict=False):
        if subscription.hole_every and subscription.acknowledges(row):
            consumer.acknowledge(message)
        elif not subscription.hole_every and row == subscription.rows - 1:
            consumer.acknowledge_cumulative(message)
    consumer.close()


def _difference(client: Any, subscription: ClientSubscription, expected: Sequence[bytes]) -> list[str]:
    """Receive as many messages as are expected; the first difference, if there is one."""
    consumer = client.subscribe(TOPIC, subscription.name)
    for number, (payload, message) in enumerate(zip(expected, _messages(consumer), strict=False)):
        if message.data() != payload:
            return [f"{subscription.name}: message {number} is {message.data()[:60]!r}, expected {payload[:60]!r}"]
    consumer.close()
    return []


def _messages(consumer: Any) -> Iterator[Any]:
    while True:
        yield consumer.receive(timeout_millis=RECEIVE_MS)
