"""The seeds of the fuzzer: records, entries and frames of Java, from `tests/golden/`."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator

from mledger.snapshot.zookeeper_files.file_access.files import LocalFiles
from mledger.snapshot.zookeeper_files.transaction_log import LogFile
from tests.support.recordings import golden

_MOST = 400
_LONGEST = 4_096


def distinct(found: Iterable[bytes], most: int = _MOST, longest: int = _LONGEST) -> list[bytes]:
    """The distinct ones of at most `longest` bytes, evenly chosen if there are more than `most`."""
    every = sorted({data for data in found if len(data) <= longest}, key=lambda data: (len(data), data))
    step = max(1, -(-len(every) // most))
    return every[::step]


@functools.cache
def _nodes() -> list[golden.GoldenNode]:
    return [
        node
        for pattern in ("znodes/*.json", "behaviours/*.json")
        for f in golden.files(pattern)
        for node in golden.nodes(f)
    ]


def nodes_at(fits: Callable[[str], bool]) -> list[bytes]:
    """The data of nodes whose path matches."""
    return distinct(node.data for node in _nodes() if fits(node.path))


@functools.cache
def _entries() -> list[golden.GoldenEntry]:
    return [entry for file in golden.files("entries/*.json") for entry in golden.entries(file)]


def stored_entries() -> list[bytes]:
    """Entries as bookies store them."""
    return distinct(entry.data for entry in _entries())


def cursor_states() -> list[bytes]:
    """Payloads of cursor ledgers."""
    return distinct(bytes.fromhex(entry.decoded["payload_hex"]) for entry in _entries() if entry.kind == "cursor")


def records(kind: str, *, compressed: bool = False) -> list[bytes]:
    """Records of `tests/golden/records/`: `managedLedgerInfo`, `managedCursorInfo`, `positionInfo`."""
    found: list[bytes] = []
    for file in golden.files("records/records-*.json"):
        for record in golden.load(file)[kind]:
            found.append(bytes.fromhex(record["hex"]))
            if compressed:
                found += [bytes.fromhex(each) for each in record.get("compressed_hex", {}).values()]
    return distinct(found)


def odd_records() -> list[bytes]:
    """Odd input that Java's parser was given."""
    return distinct(bytes.fromhex(case["hex"]) for case in golden.load("records/odd-input.json")["cases"])


def ledger_metadata() -> list[bytes]:
    """LedgerMetadata in all its versions."""
    files = golden.files("znodes/bk-ledger-metadata-serde-*.json")
    made = [bytes.fromhex(case["hex"]) for file in files for case in golden.load(file)["cases"]]
    kept = nodes_at(lambda path: path.rpartition("/")[2].startswith("L") and path.rpartition("/")[2][1:].isdigit())
    return distinct([*made, *kept])


def _wire_frames() -> Iterator[tuple[str, bytes]]:
    for file in golden.files("wire/*.json"):
        for frame in golden.load(file).get("frames", ()):
            if frame.get("hex"):
                yield frame["direction"], bytes.fromhex(frame["hex"])


def frames(direction: str) -> list[bytes]:
    """Frames on the wire, length fields included; `client->bookie` or `bookie->client`."""
    return distinct(data for way, data in _wire_frames() if way == direction)


def pulsar_entries() -> list[bytes]:
    """Entries as Pulsar's brokers store them."""
    files = golden.files("pulsar-frames/entries-*.json")
    return distinct(bytes.fromhex(entry["hex"]) for file in files for entry in golden.load(file)["entries"])


def pulsar_frames() -> list[bytes]:
    """Frames between Pulsar's clients and brokers, sizes included."""
    files = golden.files("pulsar-frames/frames-*.json")
    return distinct(bytes.fromhex(frame["hex"]) for file in files for frame in golden.load(file)["frames"])


def avro_pairs() -> list[bytes]:
    """Pairs of Avro schemas: JSON lists of a writer's and a reader's."""
    cases = golden.load("schemas/avro-reads.json")["cases"]
    return distinct(json_text([case["writer"], case["reader"]]) for case in cases)


def zookeeper_files(prefix: str) -> list[tuple[str, bytes]]:
    """ZooKeeper's own files whose names begin so: name and bytes; a log without its preallocated end."""
    found = []
    for path in sorted((golden.ROOT / "zookeeper-files").glob(f"*/version-2/{prefix}*")):
        data = path.read_bytes()
        found.append((path.name, data.rstrip(b"\0") + bytes(16) if prefix == "log." else data))
    return found


def log_records() -> list[bytes]:
    """Records of ZooKeeper's logs."""
    found: list[bytes] = []
    for folder in sorted((golden.ROOT / "zookeeper-files").glob("data-*")):
        if folder.is_dir():
            files = LocalFiles(str(folder))
            for name in files.names():
                if name.startswith("log."):
                    found += (record for _, record, _ in LogFile(files, name)._records())
    return distinct(found)


def json_text(value: object) -> bytes:
    """A JSON document as bytes."""
    return json.dumps(value, separators=(",", ":")).encode()
