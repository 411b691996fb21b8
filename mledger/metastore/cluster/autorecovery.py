"""BookKeeper's auto-recovery in the metadata store: marks with their locks, the switch, the delay, the auditor."""

import re

from msgspec import Struct

from mledger.metastore.cluster.underreplication import (
    UnderreplicatedLedger,
    decode_auditor_leader,
    decode_auditor_vote,
    decode_lock,
    decode_underreplicated_ledger,
)
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import LEDGERS, underreplication_lock_path
from mledger.metastore.store import MetadataReader

_MARK = re.compile(r"urL(\d{1,19})", re.ASCII)
_VOTE = re.compile(r"V_(\d+)", re.ASCII)
_LEVELS = 4  # of the marks' tree above the marks themselves


class RecoveryState(Struct, frozen=True):
    """Whether auto-recovery replicates under-replicated ledgers, and which bookie is the auditor.

    `auditor` is None where none is elected. BookKeeper's and Pulsar's metadata drivers hold separate elections; where
    each has elected an auditor, it names both. `lost_bookie_delay_s`: how long an auditor waits for a lost bookie, None
    where nobody has set it.
    """

    enabled: bool
    auditor: str | None
    lost_bookie_delay_s: int | None


class Mark(Struct, frozen=True):
    """A ledger that lacks replicas; `worker` is the bookie that replicates it now, None if no bookie does."""

    ledger_id: int
    mark: UnderreplicatedLedger
    worker: str | None


def disable_path(root: str = LEDGERS) -> str:
    """The node that exists while auto-recovery is switched off."""
    return f"{root}/underreplication/disable"


def lost_bookie_delay_path(root: str = LEDGERS) -> str:
    """The node that says how many seconds an auditor waits for a lost bookie, as text."""
    return f"{root}/underreplication/lostBookieRecoveryDelay"


def auditor_leader_path(root: str = LEDGERS) -> str:
    """The ephemeral node of the auditor elected by Pulsar's metadata driver; BookKeeper's own driver uses another."""
    return f"{root}/underreplication/leader"


async def read_recovery_state(reader: MetadataReader, root: str = LEDGERS) -> RecoveryState:
    """Read the state of auto-recovery; RecordError."""
    election = f"{root}/underreplication/auditorelection"
    disabled, delay, leader = await reader.get_many(
        [disable_path(root), lost_bookie_delay_path(root), auditor_leader_path(root)]
    )
    (votes,) = await reader.children_many([election])
    numbered = sorted((int(found[1]), vote) for vote in votes or () if (found := _VOTE.fullmatch(vote)))
    auditors = []
    if numbered:
        path = f"{election}/{numbered[0][1]}"
        (vote,) = await reader.get_many([path])
        auditors += [decode_auditor_vote(vote.data, path)] if vote is not None else []
    if leader is not None:
        auditors.append(decode_auditor_leader(leader.data, auditor_leader_path(root)))
    auditor = ", ".join(dict.fromkeys(auditors)) or None
    return RecoveryState(disabled is None, auditor, None if delay is None else _seconds(delay.data, root))


async def list_marks(reader: MetadataReader, root: str = LEDGERS) -> list[Mark]:
    """The ledgers that are marked as lacking replicas, by rising id; RecordError."""
    level = [f"{root}/underreplication/ledgers"]
    for _ in range(_LEVELS + 1):
        listed = await reader.children_many(level)
        level = [f"{path}/{name}" for path, names in zip(level, listed, strict=True) for name in names or ()]
    found = {int(match[1]): path for path in level if (match := _MARK.fullmatch(path.rpartition("/")[2]))}
    ledger_ids = sorted(found)
    nodes = await reader.get_many([found[ledger_id] for ledger_id in ledger_ids])
    lock_paths = [underreplication_lock_path(ledger_id, root) for ledger_id in ledger_ids]
    locks = await reader.get_many(lock_paths)
    return [
        Mark(
            ledger_id,
            decode_underreplicated_ledger(node.data, found[ledger_id]),
            None if lock is None else decode_lock(lock.data, lock_path),
        )
        for ledger_id, node, lock_path, lock in zip(ledger_ids, nodes, lock_paths, locks, strict=True)
        if node is not None
    ]


def _seconds(data: bytes, root: str) -> int:
    try:
        return int(data.decode("ascii"))
    except ValueError:
        path = lost_bookie_delay_path(root)
        raise RecordError(f"{path} is not a number of seconds: {data[:40]!r}", path) from None
