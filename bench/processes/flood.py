"""A producer that publishes as fast as it is let: a process of its own, so that it takes no time from other clients.

`python -m bench.processes.flood URL`: it prints a line once it publishes, and after SIGTERM how many messages a second
were stored.
"""

import argparse
import asyncio
import json
import signal
import time

import uvloop

from bench.rig.wire_client import WireClient, entry_of
from mledger.pb.PulsarApi_pb2 import MessageIdData

TOPIC = "persistent://public/default/flood"


class Flood:
    """Messages of `size` bytes, so many of them on the way."""

    def __init__(self, size: int, window: int) -> None:
        self._window = window
        self._entry = entry_of(bytes(size), 0, time.time_ns() // 1_000_000)
        self._sequence = 0
        self.stored = 0

    async def begin(self, service_url: str) -> None:
        """Open the producer, and publish."""
        self._client = await WireClient.connect(service_url, _ignore)
        await self._client.produce(0, TOPIC)
        for _ in range(self._window):
            self._send()

    def _send(self, before: "asyncio.Future[None] | None" = None) -> None:
        if before is not None:
            before.result()
            self.stored += 1
        self._client.publish(0, self._sequence, self._entry).add_done_callback(self._send)
        self._sequence += 1


async def run(args: argparse.Namespace) -> None:
    """Publish until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    flood = Flood(args.size, args.window)
    await flood.begin(args.service_url)
    print(json.dumps({"publishing": True}), flush=True)
    began = time.perf_counter()
    await stopped.wait()
    print(json.dumps({"stored_per_s": flood.stored / (time.perf_counter() - began)}), flush=True)


def _ignore(number: int, message_id: MessageIdData, entry: bytes) -> None:
    """Let a message pass."""


def main() -> None:
    """Publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("service_url")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a message")
    parser.add_argument("--window", type=int, default=1000, help="messages on the way")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
