"""A team's test suite on our standalone, beside Java Pulsar's and beside pulsar-lite: how soon, how much, how fast.

Each round starts every standalone anew: until it is ready, until a client that is running already has published and
received a message, its resident memory then, the time of a hundred small tests by the official Python client (each has
a namespace, a topic and ten messages, each published, received and acknowledged in turn), what the official Go client
publishes, and the most memory under that load. The Go client has 1,000 messages on their way by its default, which is a
single batch, and in other cases 4,000. Ours is measured twice: ephemeral, when it syncs nothing, and with its data
kept, when it syncs before it answers. Java's syncs its journal; pulsar-lite syncs nothing. pulsar-lite has no
namespaces to create, and the Go client's consumers do not work with it, so that load only publishes.
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pulsar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.brokers import load
from bench.rig.report import emit, emit_pairs
from bench.rig.standalones import OurStandalone, RunningStandalone, find_peers
from tests.clients.builds import missing_tools

OURS = {"ours": "", "ours, synced": ", synced"}
"""Ours, and what is added to the names of its cases."""
IMAGE = "mledger-pulsar"
TESTS, MESSAGES = 100, 10
RECEIVE_MS = 60_000
LOOK_EVERY_S = 0.05
UNITS = {
    "start until ready": "s",
    "start until a client's first message": "s",
    "resident memory, idle": "MiB",
    f"{TESTS} small tests": "s",
    f"{TESTS} small tests: CPU of the broker": "s",
    "publish 1 KiB, unbatched": "messages/s",
    "publish 100 B, batched": "messages/s",
    "publish 1 KiB, unbatched, 4,000 on their way": "messages/s",
    "publish 100 B, batched, 4,000 on their way": "messages/s",
    "synchronous send of 1 KiB: median": "ms",
    "resident memory, most under load": "MiB",
}
LOADS = {
    "publish 1 KiB, unbatched": (("-size", "1024"), "published_per_s"),
    "publish 100 B, batched": (("-size", "100", "-batch"), "published_per_s"),
    "publish 1 KiB, unbatched, 4,000 on their way": (("-size", "1024", "-window", "4000"), "published_per_s"),
    "publish 100 B, batched, 4,000 on their way": (("-size", "100", "-batch", "-window", "4000"), "published_per_s"),
    "synchronous send of 1 KiB: median": (("-size", "1024", "-in-turn"), "p50_ms"),
}
Figures = dict[str, float]


def pass_messages(client: pulsar.Client, topic: str, count: int) -> None:
    """Publish, receive and acknowledge messages, one at a time."""
    consumer = client.subscribe(topic, "test")
    producer = client.create_producer(topic)
    for number in range(count):
        producer.send(b"%d" % number)
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == b"%d" % number
        consumer.acknowledge(message)
    producer.close()
    consumer.close()


def run_small_tests(standalone: RunningStandalone, count: int) -> None:
    """What a suite of small tests does: a namespace, a client, a topic and ten messages each."""
    for number in range(count):
        namespace = f"public/test-{number}"
        if standalone.admin_url:
            url = f"{standalone.admin_url}/admin/v2/namespaces/{namespace}"
            urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
        with quiet_client(standalone.service_url) as client:
            pass_messages(client, f"persistent://{namespace}/orders", MESSAGES)


@contextlib.contextmanager
def quiet_client(service_url: str) -> Iterator[pulsar.Client]:
    """The official Python client, which logs errors only."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def most_memory(standalone: RunningStandalone, found: Figures) -> Iterator[None]:
    """Look at the memory while the context lasts, and note the most."""
    ended = threading.Event()
    seen = [standalone.memory_mib()]

    def look() -> None:
        while not ended.wait(LOOK_EVERY_S):
            seen.append(standalone.memory_mib())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        found["resident memory, most under load"] = max(seen)


def measure(start: Callable[[], RunningStandalone], seconds: float, tests: int, *, loads: bool) -> Figures:
    """All figures of one new standalone."""
    found: Figures = {}
    with start() as standalone:
        ready = time.perf_counter()
        with quiet_client(standalone.service_url) as client:
            pass_messages(client, "persistent://public/default/first", 1)
        found["start until ready"] = standalone.ready_s
        found["start until a client's first message"] = standalone.ready_s + time.perf_counter() - ready
        found["resident memory, idle"] = standalone.memory_mib()
        began, cpu_s = time.perf_counter(), standalone.cpu_s()
        run_small_tests(standalone, tests)
        found[f"{TESTS} small tests"] = (time.perf_counter() - began) * TESTS / tests
        found[f"{TESTS} small tests: CPU of the broker"] = (standalone.cpu_s() - cpu_s) * TESTS / tests
        if loads:
            with most_memory(standalone, found):
                for name, (options, figure) in LOADS.items():
                    found[name] = load(standalone.service_url, seconds, options)[figure]
    return found


def emit_all(rounds: Mapping[str, list[Figures]]) -> None:
    """Print each figure of each of ours beside each peer's, or alone if there is none."""
    peers = {peer: found for peer, found in rounds.items() if peer not in OURS}
    for ours, which in OURS.items():
        for name in rounds[ours][0]:
            values = [each[name] for each in rounds[ours]]
            for peer, found in peers.items():
                emit_pairs("standalones", name + which, values, [each[name] for each in found], UNITS[name], peer)
            if not peers:
                middle, spread = sorted(values)[len(values) // 2], (min(values), max(values))
                emit("standalones", name + which, middle, UNITS[name], spread=spread)


def image_mb() -> float | None:
    """The size of our image, unpacked; None if no engine answers, or it has no image."""
    if shutil.which("docker") is None:
        return None
    command = ["docker", "image", "inspect", "--format", "{{.Size}}", IMAGE]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(asked.stdout) / 1e6 if asked.returncode == 0 else None


def main() -> None:
    """Run the rounds; the first is not counted, since it warms caches up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tests", type=int, default=TESTS, help="how many small tests; the time is that of a hundred")
    parser.add_argument("--no-java", action="store_true")
    args = parser.parse_args()
    ours = (OurStandalone, lambda: OurStandalone(kept=True))
    starts: dict[str, Callable[[], RunningStandalone]] = {
        **dict(zip(OURS, ours, strict=True)),
        **find_peers(java=not args.no_java),
    }
    loads = not missing_tools("go")
    rounds: dict[str, list[Figures]] = defaultdict(list)
    for number in range(args.pairs + 1):
        for name, start in starts.items():
            if number:
                rounds[name].append(measure(start, args.seconds, args.tests, loads=loads))
            else:
                measure(start, min(args.seconds, 0.5), min(args.tests, 2), loads=loads)
    emit_all(rounds)
    if (size := image_mb()) is not None:
        emit("standalones", f"image {IMAGE}, unpacked", size, "MB")


if __name__ == "__main__":
    main()
