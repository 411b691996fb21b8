"""Loads a dump of the golden data into real stores: nodes into ZooKeeper, entries onto bookies, byte by byte."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.client.plans.write_sets import write_set
from mledger.bookie.digest import master_key
from mledger.metastore.errors import NodeExists, NodeNotFound
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.store import Create, Delete, MetadataStore
from tests.support.bookies.processes import BookieServer
from tests.support.bookies.raw_bookie import RawBookieClient
from tests.support.recordings.scenarios import GOLDEN, MANAGED_LEDGERS, Reopening

IDS_AT_ONCE = 100


async def draw_ids(store: MetadataStore, below: int) -> None:
    """Use up the ledger ids below `below`, as other topics would."""
    folder = "/ledgers/idgen"
    with contextlib.suppress(NodeExists):
        await store.create(folder)
    drawn = 0
    while drawn < below:
        count = min(IDS_AT_ONCE, below - drawn)
        made = await store.multi([Create(f"{folder}/ID-", sequential=True)] * count)
        await store.multi([Delete(str(path)) for path in made])
        drawn += count


def worlds(cases: Iterable[Reopening]) -> dict[str, int]:
    """A number for each scenario. Scenarios with the same number share no ledger id, so they can share bookies."""
    ids: dict[str, set[int]] = {}
    for case in cases:
        ids.setdefault(case.scenario, set()).update(case.stores.ledgers)
    taken: list[set[int]] = []
    numbers: dict[str, int] = {}
    for scenario, used in ids.items():
        number = next((at for at, others in enumerate(taken) if not others & used), len(taken))
        if number == len(taken):
            taken.append(set())
        taken[number] |= used
        numbers[scenario] = number
    return numbers


@dataclass(frozen=True)
class Loaded:
    """A dump in the stores, and the entries of its data ledgers in order."""

    ledgers: tuple[int, ...]
    payloads: dict[int, list[bytes]]


async def load(store: MetadataStore, bookies: Sequence[BookieServer], case: Reopening) -> Loaded:
    """Write those ledgers of the case's dump that still exist, their entries, and the topic's nodes."""
    stage = next(
        stage
        for stage in json.loads((GOLDEN / "entries" / f"{case.scenario}.json").read_text())["stages"]
        if stage["stage"] == case.stage
    )
    members = _members(case, bookies)
    payloads: dict[int, list[bytes]] = {}
    for ledger in stage["ledgers"]:
        ledger_id = ledger["ledgerId"]
        if ledger_id not in case.stores.ledgers:
            continue
        path = ledger_path(ledger_id)
        metadata = decode_ledger_metadata(case.stores.znodes[path], path)
        ours = replace(metadata, segments=tuple(_moved(segment, members) for segment in metadata.segments))
        await store.create(path, encode_ledger_metadata(ours), parents=True)
        await _add(ours, ledger["entries"], bookies)
        payloads[ledger_id] = [bytes.fromhex(entry["decoded"]["payload_hex"]) for entry in ledger["entries"]]
    topic = MANAGED_LEDGERS + case.topic
    for path, data in sorted(case.stores.znodes.items()):
        if path == topic or path.startswith(f"{topic}/"):
            await store.create(path, data, parents=True)
    return Loaded(tuple(payloads), payloads)


async def unload(store: MetadataStore, loaded: Loaded) -> None:
    """Delete the remaining metadata of the dump's ledgers."""
    for ledger_id in loaded.ledgers:
        with contextlib.suppress(NodeNotFound):
            await store.delete(ledger_path(ledger_id))


def _members(case: Reopening, bookies: Sequence[BookieServer]) -> dict[str, BookieServer]:
    """Our bookie for each bookie of the dump."""
    theirs = {
        bookie
        for ledger_id in case.stores.ledgers
        for segment in decode_ledger_metadata(case.stores.znodes[ledger_path(ledger_id)], "").segments
        for bookie in segment.bookies
    }
    return dict(zip(sorted(theirs), bookies, strict=False))


def _moved(segment: Segment, members: dict[str, BookieServer]) -> Segment:
    return segment._replace(bookies=tuple(members[bookie].bookie_id for bookie in segment.bookies))


async def _add(metadata: LedgerMetadata, entries: list[dict], bookies: Sequence[BookieServer]) -> None:
    frames: dict[str, list[bytes]] = {}
    for entry in entries:
        ensemble = metadata.segment_at(entry["entry"]).bookies
        stored = bytes.fromhex(entry["hex"])
        frame = wire.encode_add(master_key(metadata.password or b""), stored, wire.Flag.RECOVERY_ADD)
        for index in write_set(entry["entry"], metadata.ensemble_size, metadata.write_quorum):
            frames.setdefault(ensemble[index], []).append(frame)
    for bookie in bookies:
        async with RawBookieClient(bookie) as client:
            for frame in frames.get(bookie.bookie_id, ()):
                assert (await client.ask(frame)).error == 0
