"""A client's load on a Pulsar topic while its servers fail. Remembers what was acknowledged."""

import threading
import time
from collections.abc import Iterable
from types import TracebackType

import pulsar

from tests.support.aio import HANG_S
from tests.support.java.pulsar_cluster import PulsarCluster

LOOK_S = 1.0
"""Between looks whether the broker runs."""


class Producing:
    """A thread that sends numbered messages one by one, each until it is acknowledged, as long as the context lasts."""

    def __init__(self, cluster: PulsarCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._stop = threading.Event()
        self._more = threading.Condition()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._send, name=f"load of {topic}", daemon=True)
        self.acknowledged: list[bytes] = []

    def wait_for(self, more: int) -> None:
        """Return when `count` more messages were acknowledged."""
        wanted, until = len(self.acknowledged) + more, time.monotonic() + HANG_S
        with self._more:
            while len(self.acknowledged) < wanted and self._error is None:
                if not self._cluster.broker.process.running:
                    raise self._cluster.broker.process.failure("has ended")
                assert time.monotonic() < until, f"only {len(self.acknowledged)} of {wanted} messages were acknowledged"
                self._more.wait(LOOK_S)
        if self._error is not None:
            raise self._error

    def _send(self) -> None:
        try:
            with self._cluster.client(operation_timeout_seconds=int(HANG_S)) as client:
                producer = client.create_producer(self._topic, send_timeout_millis=0, batching_enabled=False)
                number = 0
                while not self._stop.is_set():
                    payload = b"%d" % number
                    producer.send(payload)
                    number += 1
                    with self._more:
                        self.acknowledged.append(payload)
                        self._more.notify_all()
        except BaseException as error:
            with self._more:
                self._error = error
                self._more.notify_all()

    def __enter__(self) -> "Producing":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(HANG_S if error is None else 0)  # what failed may never be answered


def delivered(cluster: PulsarCluster, topic: str) -> list[bytes]:
    """What a reader of the topic receives from its first message to its last, without repeats."""
    with cluster.client() as client:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found: list[bytes] = []
        while reader.has_message_available():
            found.append(reader.read_next(int(HANG_S * 1000)).data())
    return list(dict.fromkeys(found))


def subscribe(cluster: PulsarCluster, topic: str, subscription: str = "sub") -> None:
    """Create a subscription: what it has not acknowledged is not trimmed."""
    with cluster.client() as client:
        client.subscribe(topic, subscription, initial_position=pulsar.InitialPosition.Earliest)


def consume(cluster: PulsarCluster, topic: str, count: int, subscription: str = "sub") -> list[bytes]:
    """The next `count` messages of a subscription. Acknowledges each."""
    found = []
    with cluster.client() as client:
        consumer = client.subscribe(topic, subscription)
        for _ in range(count):
            message = consumer.receive(int(HANG_S * 1000))
            consumer.acknowledge(message)
            found.append(message.data())
        consumer.close()  # sends the pending acknowledgements
    cluster.settle(topic)
    return found


def produce(cluster: PulsarCluster, topic: str, payloads: Iterable[bytes], **options: object) -> list[str]:
    """Send messages, unbatched unless `options` say otherwise, and return their ids as `ledger:entry`."""
    with cluster.client() as client:
        producer = client.create_producer(topic, **{"batching_enabled": False, **options})
        ids = [producer.send(payload) for payload in payloads]
    return [f"{each.ledger_id()}:{each.entry_id()}" for each in ids]
