"""The golden scenarios: what Java did step by step, and the contents of its stores at each dump."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info, decode_position_info
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    BatchDeletion,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    PositionInfo,
)

GOLDEN = Path(__file__).parents[2] / "golden"
MANAGED_LEDGERS = "/managed-ledgers/"
# Steps after a dump that leave what a new owner recovers unchanged, or only move it elsewhere.
HARMLESS = {
    "new broker (factory)",
    "broker crashed (nothing closed)",
    "shutdown broker cleanly",
    "close managed ledger",
    "close cursor",
    "ledger deleted behind its back",
    "cursor znode written by hand",
    "dump",
}


@dataclass(frozen=True)
class ScenarioEntry:
    """An entry of a ledger: its payload, and the ledger's length in bytes up to and including it."""

    payload: bytes
    length: int


@dataclass
class Stores:
    """What the metadata store and the bookies held at one moment."""

    znodes: dict[str, bytes]
    ledgers: dict[int, dict[int, ScenarioEntry]] = field(default_factory=dict)

    def topic(self, name: str) -> ManagedLedgerInfo:
        return decode_managed_ledger_info(self.znodes[MANAGED_LEDGERS + name]).value

    def cursors(self, name: str) -> dict[str, ManagedCursorInfo]:
        folder = MANAGED_LEDGERS + name + "/"
        return {
            path.removeprefix(folder): decode_managed_cursor_info(data).value
            for path, data in self.znodes.items()
            if path.startswith(folder)
        }

    def state(self, ledger_id: int, entry: int) -> PositionInfo:
        return decode_position_info(self.ledgers[ledger_id][entry].payload).value


@dataclass(frozen=True)
class Reopening:
    """A dump, and Java's state after it opened the topic from that dump."""

    scenario: str
    stage: str
    topic: str
    stores: Stores
    state: dict
    config: dict

    @property
    def id(self) -> str:
        return f"{self.scenario}:{self.topic.rsplit('/', 1)[-1]}:{self.stage}".replace(" ", "_")


def scenario_paths() -> list[Path]:
    return [
        path
        for folder in ("znodes", "behaviours")
        for path in sorted((GOLDEN / folder).glob("*.json"))
        if "events" in json.loads(path.read_text())
    ]


def load(name: str) -> dict:
    for folder in ("znodes", "behaviours"):
        path = GOLDEN / folder / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text())
    raise FileNotFoundError(name)


def stores_of(dump: dict, stage: dict | None) -> Stores:
    stores = Stores({node["path"]: bytes.fromhex(node["data_hex"]) for node in dump["znodes"]})
    for ledger in stage["ledgers"] if stage else ():
        stores.ledgers[ledger["ledgerId"]] = {
            entry["entry"]: ScenarioEntry(bytes.fromhex(entry["decoded"]["payload_hex"]), entry["decoded"]["length"])
            for entry in ledger["entries"]
        }
    return stores


def dumps(scenario: dict, name: str) -> dict[int, Stores]:
    """The stores at each dump, by the dump's index among the events."""
    at = [index for index, event in enumerate(scenario["events"]) if event["op"] == "dump"]
    if not at:
        return {}
    stages = json.loads((GOLDEN / "entries" / f"{name}.json").read_text())["stages"]
    return {index: stores_of(scenario["events"][index], stage) for index, stage in zip(at, stages, strict=True)}


def reopenings(path: Path) -> Iterator[Reopening]:
    """Every dump of a scenario from which a topic was opened again, with no change between them."""
    scenario = json.loads(path.read_text())
    events = scenario["events"]
    for index, stores in dumps(scenario, path.stem).items():
        for topic in scenario["managedLedgers"]:
            if MANAGED_LEDGERS + topic not in stores.znodes:
                continue
            stage = events[index]["stage"]
            opened = _reopened(events, index + 1, topic, stores)
            if opened is not None:
                yield Reopening(path.stem, stage, topic, stores, opened, scenario["config"])


def _reopened(events: list[dict], start: int, topic: str, stores: Stores) -> dict | None:
    for index in range(start, len(events)):
        event = events[index]
        if event["op"] == "open managed ledger":
            if event["name"] == topic:
                return _state_after(events, index, topic)
            continue
        if event["op"] not in HARMLESS or (event["op"] == "dump" and event.get("state")):
            return None
        if event["op"] == "ledger deleted behind its back":
            stores.ledgers.pop(event["ledgerId"], None)
        if event["op"] == "cursor znode written by hand":
            stores.znodes[event["path"]] = bytes.fromhex(event["data_hex"])
    return None


def _state_after(events: list[dict], opened: int, topic: str) -> dict | None:
    if events[opened].get("error"):
        return {"error": events[opened]["error"]}
    for event in events[opened + 1 :]:
        for state in states(event):
            if state["managedLedger"] == topic:
                return state
        if event["op"] in ("open managed ledger", "shutdown broker cleanly", "broker crashed (nothing closed)"):
            return None
    return None


def states(event: dict) -> list[dict]:
    state = event.get("state")
    if state is None:
        return []
    return state if isinstance(state, list) else [state]


def ledger_list(state: dict) -> LedgerList:
    """Java's list of ledgers as it was in memory."""
    infos = [LedgerInfo(each["ledgerId"], each["entries"] or 0, each["size"] or 0) for each in state["ledgers"]]
    current = next((each["ledgerId"] for each in state["ledgers"] if not each["closed"]), None)
    live = state["numberOfEntries"] - sum(info.entries for info in infos)
    live_size = state["totalSize"] - sum(info.size for info in infos)
    return LedgerList(infos, current=current, live_entries=live, live_size=live_size)


def parse_ranges(text: str) -> list[PositionRange]:
    """Java's text of ranges, `[(1:2..1:4],(2:-1..2:0]]`."""
    return [
        PositionRange(Position.parse(lower), Position.parse(upper))
        for lower, upper in re.findall(r"\((-?\d+:-?\d+)\.\.(-?\d+:-?\d+)\]", text)
    ]


def batch_deletions(cursor: dict) -> list[BatchDeletion]:
    return [BatchDeletion(Position.parse(at), tuple(words)) for at, words in cursor["batchDeletedIndexes"].items()]
