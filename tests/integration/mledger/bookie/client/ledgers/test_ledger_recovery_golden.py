"""Recoveries by Java's client, with stopped bookies and unacknowledged tails, repeated by ours on our bookies (Q4).

`tests/golden/wire/recovery-*.json`: the entries are stored as they were before the recovery; its outcome, the
ensembles and the copies are compared afterwards. A stopped bookie there is a killed one here. Java's length of a
closed ledger may count a tail that it did not recover. Ours is exact, and that difference is asserted.
"""

import re
from dataclasses import dataclass

import pytest

from mledger.bookie.errors import RecoveryUndecided
from mledger.metastore.records.ledger_metadata import LedgerState
from tests.support.aio import run
from tests.support.ledgers import client, holders, lay_down_ledger, store_raw
from tests.support.recordings import golden

FILES = golden.files("wire/recovery-*.json")
JAVA_COUNTS_A_LOST_TAIL = {
    "wire/recovery-tail-on-second-322-0.json": (31, 27),
    "wire/recovery-tail-out-of-write-set-322-1.json": (40, 36),
}
"""Java's length, and the length at the last entry."""

DESCRIPTION = re.compile(
    r"E=\d Wq=(?P<write>\d) Aq=(?P<ack>\d), (?P<count>\d+) acknowledged entries; a tail entry \d+ written only to "
    r"ensemble indexes \[(?P<tail>[\d, ]*)\]; ensemble indexes \[(?P<stopped>[\d, ]*)\] are stopped"
)


@dataclass
class RecoveryCase:
    write_quorum: int
    ack_quorum: int
    count: int  # acknowledged entries
    tail: list[int]  # indexes in the ensemble that have the entry after them
    stopped: list[int]
    outcome: dict
    stored: dict[int, bytes]

    def placed(self):
        """What each member of the ensemble held before the recovery: (index, stored entry), without stopped bookies."""
        size = len(self.outcome["ensemble"])
        for entry, stored in self.stored.items():
            members = self.tail if entry == self.count else [(entry + i) % size for i in range(self.write_quorum)]
            for index in members:
                if index not in self.stopped:
                    yield index, stored


def case_of(file):
    content = golden.load(file)
    found = DESCRIPTION.fullmatch(content["description"].partition("; then a recovery open")[0])
    numbers = {name: [int(part) for part in found[name].split(",") if part.strip()] for name in ("tail", "stopped")}
    outcome = content["outcome"]
    stored = {entry["entry"]: bytes.fromhex(entry["hex"]) for entry in outcome["entriesOnLiveBookies"]}
    return RecoveryCase(
        int(found["write"]), int(found["ack"]), int(found["count"]), **numbers, outcome=outcome, stored=stored
    )


@pytest.fixture(scope="module")
def dead(cluster):
    """Two killed bookies of the cluster."""
    killed = cluster.start(2)
    for bookie in killed:
        bookie.kill()
    return killed


@pytest.mark.parametrize("file", FILES)
def test_recovery_ends_as_in_java(cluster, dead, file):
    case = case_of(file)
    names = case.outcome["ensemble"]
    spare = iter(cluster[:4])
    lost = iter(dead)
    ensemble = [next(lost) if index in case.stopped else next(spare) for index in range(len(names))]

    async def main():
        ledger = await lay_down_ledger(
            cluster.metadata_url,
            ensemble,
            case.write_quorum,
            case.ack_quorum,
            entries_of=case.outcome["ledgerId"],
        )
        for index, stored in case.placed():
            await store_raw(ensemble[index], stored)
        async with client(cluster.metadata_url) as bookkeeper:
            if "error" in case.outcome:
                with pytest.raises(RecoveryUndecided):
                    await bookkeeper.open_ledger(ledger)
                assert (await bookkeeper.metadata(ledger)).state is LedgerState.IN_RECOVERY
                return
            reader = await bookkeeper.open_ledger(ledger)
            check_outcome(file, case, reader, [bookie.bookie_id for bookie in ensemble])
        await check_copies(case, cluster, ledger, ensemble)

    run(main())


def check_outcome(file, case, reader, ensemble):
    last, length = case.outcome["lastEntry"], case.outcome["length"]
    javas, exact = JAVA_COUNTS_A_LOST_TAIL.get(file, (length, length))
    assert (reader.last_entry, javas, exact) == (last, length, reader.length)
    assert exact == int.from_bytes(case.stored[last][24:32], "big")
    recorded = case.outcome["metadataAfter"]["ensembles"]
    segments = reader.metadata.segments
    assert [segment.first_entry for segment in segments] == [segment["firstEntryId"] for segment in recorded]
    for segment, expected in zip(segments, recorded, strict=True):
        changed = [name != before for name, before in zip(expected["members"], case.outcome["ensemble"], strict=True)]
        assert [name != before for name, before in zip(segment.bookies, ensemble, strict=True)] == changed


async def check_copies(case, cluster, ledger, ensemble):
    """Assert that every live member of the first ensemble holds the entries of the recorded one, and no others."""
    for recorded in case.outcome["entriesOnLiveBookies"]:
        names = {f"bookie-{number}" for number in recorded["bookies"]}
        live = [index for index in range(len(ensemble)) if index not in case.stopped]
        expected = {ensemble[index].bookie_id for index in live if case.outcome["ensemble"][index] in names}
        found = await holders([ensemble[index] for index in live], ledger, recorded["entry"])
        assert found == expected, f"entry {recorded['entry']}"
