"""Finds bookies to replace failed ones in an ensemble (Q2)."""

import random
from collections.abc import Collection, Mapping

from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.plans.placement import plan_replacements, replace_members
from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.errors import MetadataAccessDenied, NodeNotFound, RecordError, StoreUnavailable
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

Found = dict[int, BookieConnection]


async def find_replacements(
    ensemble: tuple[str, ...],
    failed: Collection[int],
    may_return: Collection[int],
    pool: BookiePool,
    lane: Lane,
    rng: random.Random,
    *,
    write_quorum: int,
    affinity: BookieAffinityGroup | None = None,
) -> Found:
    """Connections to other bookies for as many of the indexes `failed` as there are bookies that can be reached.

    Where there is no other, the failed bookie itself is taken if it is among `may_return` and can be reached: better
    that one again than none. New members stand on other racks than those that they share write sets with, and are of
    the groups that `affinity`, the ledger's, names (Q1). A bookie that was silent lately is not taken at all. Nothing
    is found while the metadata store does not say who is there.
    """
    found: Found = {}
    try:
        await _take_others(found, ensemble, failed, pool, lane, rng, write_quorum, affinity)
        back = {index: ensemble[index] for index in failed if index in may_return and index not in found}
        writable = set(await pool.writable()) - pool.quarantine.silent() if back else ()
        found |= await take_back({index: bookie for index, bookie in back.items() if bookie in writable}, pool, lane)
    except (StoreUnavailable, RecordError, NodeNotFound, MetadataAccessDenied) as error:
        log.warning("bookies_unknown", ensemble=ensemble, error=error)
    return found


async def take_back(members: Mapping[int, str], pool: BookiePool, lane: Lane) -> Found:
    """Connections to those of `members` that can be reached."""
    connections = await pool.connections(members.values(), lane)
    found: Found = {}
    for index, bookie in members.items():
        connection = connections[bookie]
        if not isinstance(connection, BookieUnavailable):
            found[index] = connection
    return found


async def _take_others(
    found: Found,
    ensemble: tuple[str, ...],
    failed: Collection[int],
    pool: BookiePool,
    lane: Lane,
    rng: random.Random,
    write_quorum: int,
    affinity: BookieAffinityGroup | None,
) -> None:
    unreachable: set[str] = set()
    missing = set(failed)
    fresh = False
    while missing:
        members = replace_members(ensemble, {index: connection.bookie_id for index, connection in found.items()})
        usable, topology = await pool.usable(len(ensemble), affinity, fresh=fresh)
        candidates = usable - set(ensemble) - unreachable - pool.quarantine.silent()
        plan = plan_replacements(
            members,
            missing,
            candidates,
            pool.quarantine.failed(),
            rng,
            write_quorum=write_quorum,
            topology=topology,
        )
        if not plan:
            if fresh:
                return
            fresh = True  # one may have been started within the last second
            continue
        reached = await take_back(plan, pool, lane)
        unreachable |= {bookie for index, bookie in plan.items() if index not in reached}
        found |= reached
        missing -= reached.keys()
