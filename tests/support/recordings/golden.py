"""Reads `tests/golden/`: records, nodes, entries and scenarios that Java made (see its README)."""

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mledger.metastore.records.ledger_metadata import DigestType
from mledger.metastore.store import MetadataStore

ROOT = Path(__file__).resolve().parents[2] / "golden"

Json = dict[str, Any]

_DIGEST_TYPES = {
    "CRC32": DigestType.CRC32,
    "CRC32C": DigestType.CRC32C,
    "MAC": DigestType.HMAC,
    "DUMMY": DigestType.DUMMY,
}


@dataclass(frozen=True)
class GoldenNode:
    """A node as Java left it, or as a scenario wrote it by hand (version 0); `decoded` is None if it has no meaning."""

    file: str
    path: str
    data: bytes
    version: int
    ephemeral: bool
    num_children: int
    decoded: Json | None
    text: str | None

    def __str__(self) -> str:
        return f"{self.file}:{self.path}"


@dataclass(frozen=True)
class GoldenEntry:
    """An entry as one bookie stores it. An entry whose replicas differ has several."""

    file: str
    stage: str
    kind: str
    digest_type: DigestType
    password: bytes
    data: bytes
    decoded: Json
    bookies: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.file}:{self.stage}:{self.decoded['ledgerId']}:{self.decoded['entryId']}"


def files(pattern: str) -> list[str]:
    """The golden files that match, relative to the folder and sorted. Raises an error if there is none."""
    found = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern) if path.is_file())
    if not found:
        raise FileNotFoundError(f"no golden file matches {pattern!r}")
    return found


@functools.lru_cache(maxsize=8)
def load(file: str) -> Json:
    """The content of one golden file, by its path relative to the folder. It is shared: do not change it."""
    with (ROOT / file).open(encoding="utf-8") as stream:
        content: Json = json.load(stream)
    return content


def digest_type(name: str) -> DigestType:
    """The digest type that Java calls `name`."""
    return _DIGEST_TYPES[name]


def nodes(file: str) -> Iterator[GoldenNode]:
    """All nodes in a file of `znodes/`, `behaviours/` or `wire/`, in its order, from every dump and stage."""
    return _nodes_in(file, load(file))


def _nodes_in(file: str, value: Any) -> Iterator[GoldenNode]:
    if isinstance(value, list):
        for each in value:
            yield from _nodes_in(file, each)
    elif isinstance(value, dict) and "data_hex" in value:
        yield GoldenNode(
            file,
            value["path"],
            bytes.fromhex(value["data_hex"]),
            value.get("version", 0),
            value.get("ephemeral", False),
            value.get("num_children", 0),
            value.get("decoded") or None,
            value.get("text"),
        )
    elif isinstance(value, dict):
        for each in value.values():
            yield from _nodes_in(file, each)


def config_of(entries_file: str) -> Json:
    """The configuration of the scenario that made the entries of this file."""
    name = entries_file.removeprefix("entries/")
    folder = "znodes" if (ROOT / "znodes" / name).exists() else "behaviours"
    config: Json = load(f"{folder}/{name}")["config"]
    return config


def entries(file: str) -> Iterator[GoldenEntry]:
    """All entries in a file of `entries/`, with each differing replica as an entry of its own."""
    password = bytes.fromhex(config_of(file)["password_hex"])
    for stage in load(file)["stages"]:
        for ledger in stage["ledgers"]:
            kind, digest = ledger["kind"], digest_type(ledger["digestType"])
            for entry in ledger["entries"]:
                for data, bookies in replicas(entry).items():
                    yield GoldenEntry(file, stage["stage"], kind, digest, password, data, entry["decoded"], bookies)


def replicas(entry: Json) -> dict[bytes, tuple[int, ...]]:
    """The different bytes of one entry and the indexes of the bookies that hold each."""
    held: dict[bytes, tuple[int, ...]] = {}
    for bookie in entry["bookies"]:
        data = bytes.fromhex(entry.get(f"hex_differs_on_{bookie}", entry["hex"]))
        held[data] = (*held.get(data, ()), bookie)
    return held


async def load_nodes(store: MetadataStore, found: Iterable[GoldenNode]) -> None:
    """Create the nodes in an empty store; ephemeral nodes belong to its own session."""
    for node in sorted(found, key=lambda node: node.path):
        await store.create(node.path, node.data, ephemeral=node.ephemeral, parents=True)
