"""The bare cost of a replicated append on this machine, in Python: the ceiling that `append.py` is compared with.

Three processes parse version 2 frames, make them durable and answer. A client computes CRC32C, frames entries and
counts until two of the three have acknowledged each. There is no metadata, no last-add-confirmed logic, no recovery and
no error handling, only one payload, and frames of one size. Run it next to a benchmark of the real path, in the same
minute, and quote the ratio, not the rate.
"""

import argparse
import asyncio
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import google_crc32c
import numpy
import uvloop
from rocksdict import DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

REPLICAS = 3
ACK_QUORUM = 2
JOURNAL_BYTES = 256 << 20
RECEIVE_BYTES = 1 << 20
ADD = 0x02010000  # version 2, add, no flags
HEAD = struct.Struct(">II20sqq")  # length, header word, master key, ledger, entry
COVERED = struct.Struct(">qqqq")  # ledger, entry, last-add-confirmed, length: what the digest covers before the payload
KEY = slice(28, 44)  # ledger and entry in a frame
RESPONSE = numpy.dtype([("length", ">u4"), ("header", ">u4"), ("error", ">u4"), ("ledger", ">i8"), ("entry", ">i8")])
SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class Figures:
    """One run; CPU is that of the client and all three bookies."""

    entries_per_s: float
    cpu_us_per_entry: float
    p50_ms: float
    p99_ms: float


class CircularFile:
    """A preallocated file, overwritten in a circle; what is appended is durable on return."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR)
        self._end = 0
        for _ in range(JOURNAL_BYTES >> 20):
            os.write(self._file, bytes(1 << 20))
        os.fsync(self._file)

    def append(self, data: bytes) -> None:
        if self._end + len(data) > JOURNAL_BYTES:
            self._end = 0
        os.pwrite(self._file, data, self._end)
        self._end += len(data)
        os.fdatasync(self._file)


class Storage:
    """A journal, and RocksDB behind it without a log of its own; one value for all that came in together."""

    def __init__(self, directory: str) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(DBCompressionType.none())
        self._store = Rdict(directory, options)
        self._journal = CircularFile(directory + ".journal")
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True

    def put(self, frames: bytes) -> None:
        run = WriteBatch(raw_mode=True)
        run.put(frames[KEY], frames)
        self._journal.append(frames)
        self._store.write(run, self._unlogged)


class Server(asyncio.BufferedProtocol):
    """One connection of a bookie: stores what the receive buffer holds in one synced write, then answers all of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, storage: Storage) -> None:
        self._loop = loop
        self._storage = storage
        self._writer_thread = ThreadPoolExecutor(1)
        self._buffer = bytearray(RECEIVE_BYTES)
        self._filled = 0
        self._storing = False

    def connection_made(self, transport):
        self._transport = transport

    def get_buffer(self, _):
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, count):
        self._filled += count
        if not self._storing:
            self._store_received()
        elif self._filled == len(self._buffer):
            self._transport.pause_reading()

    def _store_received(self):
        if self._filled < HEAD.size:
            return
        stride = 4 + HEAD.unpack_from(self._buffer)[0]  # here all frames are of one size
        count = self._filled // stride
        if not count:
            return
        frames = bytes(memoryview(self._buffer)[: count * stride])
        self._buffer[: self._filled - len(frames)] = self._buffer[len(frames) : self._filled]
        self._filled -= len(frames)
        responses = _responses(frames, count, stride)
        self._storing = True
        stored = self._loop.run_in_executor(self._writer_thread, self._storage.put, frames)
        stored.add_done_callback(lambda done: self._answer(done, responses))
        if not self._transport.is_reading():
            self._transport.resume_reading()

    def _answer(self, stored, responses):
        stored.result()
        self._storing = False
        if not self._transport.is_closing():
            self._transport.write(responses)
            self._store_received()


def _responses(frames: bytes, count: int, stride: int) -> bytes:
    keys = numpy.frombuffer(frames, numpy.uint8).reshape(count, stride)[:, KEY].copy().view(">i8")
    responses = numpy.empty(count, RESPONSE)
    responses["length"], responses["header"], responses["error"] = RESPONSE.itemsize - 4, ADD, 0
    responses["ledger"], responses["entry"] = keys[:, 0], keys[:, 1]
    return responses.tobytes()


class AddConnection(asyncio.Protocol):
    """The client's connection to one bookie: up to which entry it has answered."""

    def __init__(self, client: "AddClient") -> None:
        self._client = client
        self._rest = b""
        self.answered = 0

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        data = self._rest + data
        responses = numpy.frombuffer(data, RESPONSE, len(data) // RESPONSE.itemsize)
        self._rest = data[responses.nbytes :]
        if responses["error"].any():
            raise SystemExit("ceiling: a bookie answered an error")
        if len(responses):
            self.answered = int(responses["entry"][-1]) + 1
            self._client.advance()


class AddClient:
    """Keeps `window` entries of `size` bytes in flight for `seconds`."""

    def __init__(self, size: int, window: int, seconds: float) -> None:
        self._payload = os.urandom(size)
        self._window = window
        self._seconds = seconds
        self._sent_at: dict[int, float] = {}
        self._sent = 0
        self.acknowledged = 0
        self.delays: list[float] = []
        self.connections: list[AddConnection] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self._until = time.perf_counter() + self._seconds
        self._send()

    def advance(self) -> None:
        self.acknowledged = sorted(connection.answered for connection in self.connections)[REPLICAS - ACK_QUORUM]
        now = time.perf_counter()
        for end in [end for end in self._sent_at if end <= self.acknowledged]:
            self.delays.append(now - self._sent_at.pop(end))
        if now < self._until:
            self._send()
        elif self.acknowledged == self._sent and not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        room = self.acknowledged + self._window - self._sent
        if room < max(1, self._window // 8):
            return
        frames = self._frames(range(self._sent, self._sent + room))
        self._sent += room
        self._sent_at[self._sent] = time.perf_counter()
        for connection in self.connections:
            connection.transport.write(frames)

    def _frames(self, entries: range) -> bytes:
        payload, size = self._payload, len(self._payload)
        length = HEAD.size - 4 + 16 + 4 + size
        parts: list[bytes] = []
        for entry in entries:
            covered = COVERED.pack(1, entry, entry - 1, (entry + 1) * size)
            digest = google_crc32c.extend(google_crc32c.value(covered), payload)
            parts += (HEAD.pack(length, ADD, b"k" * 20, 1, entry), covered[16:], digest.to_bytes(4, "big"), payload)
        return b"".join(parts)


async def _drive(ports: list[int], size: int, window: int, seconds: float) -> tuple[int, float, list[float]]:
    loop = asyncio.get_running_loop()
    client = AddClient(size, window, seconds)
    for port in ports:
        _, connection = await loop.create_connection(lambda: AddConnection(client), "127.0.0.1", port)
        client.connections.append(connection)
    start = time.perf_counter()
    client.start()
    await client.done
    return client.acknowledged, time.perf_counter() - start, sorted(client.delays)


def serve(directory: str) -> None:
    """Be a bookie: print the port, serve until killed."""
    storage = Storage(directory)

    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Server(loop, storage), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    uvloop.run(forever())


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, seconds."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(size: int, window: int, seconds: float) -> Figures:
    """Start three bookies on fresh directories, drive them from this process, remove everything."""
    root = tempfile.mkdtemp(prefix="ceiling-")
    command = [sys.executable, os.path.abspath(__file__), "--serve"]
    bookies = [subprocess.Popen([*command, f"{root}/{i}"], stdout=subprocess.PIPE, text=True) for i in range(REPLICAS)]
    pids = [os.getpid(), *(bookie.pid for bookie in bookies)]
    try:
        ports = [int(bookie.stdout.readline()) for bookie in bookies if bookie.stdout]
        before = sum(map(cpu_seconds, pids))
        entries, elapsed, delays = uvloop.run(_drive(ports, size, window, seconds))
        cpu = sum(map(cpu_seconds, pids)) - before
    finally:
        for bookie in bookies:
            bookie.kill()
            bookie.wait()
        shutil.rmtree(root, ignore_errors=True)
    p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    return Figures(entries / elapsed, 1e6 * cpu / entries, 1e3 * p50, 1e3 * p99)


def main() -> None:
    """Measure once and print one JSON object; or serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="payload, bytes")
    parser.add_argument("--window", type=int, default=4000, help="entries in flight")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to send")
    parser.add_argument("--serve", metavar="DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if args.serve:
        serve(args.serve)
    else:
        print(json.dumps(asdict(measure(args.size, args.window, args.seconds))))


if __name__ == "__main__":
    main()
