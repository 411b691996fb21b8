"""Whether bookies are well, read-only: registered, reachable, their cookies right, able to read, with room.

`BookieCheck` gathers the findings; `plan_problems` decides what is wrong.
"""

import asyncio
import enum
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from mledger.bookie.client.connections.bookie_info import TIMEOUT_S, BookieInfo, ask_clock, ask_info
from mledger.bookie.client.connections.pool import BookiePool
from mledger.bookie.client.plans.write_sets import write_set
from mledger.bookie.errors import BookieUnavailable, Code
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.cookies import Cookie, read_cookie
from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import NodeNotFound, RecordError
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

NO_SUCH_LEDGER = (1 << 63) - 1
"""The ledger to read from a bookie that holds none: it must answer that there is no such ledger."""

CLOCK_OFF_S = 5.0
FULL_SHARE = 0.95

_AT_ONCE = 16


class Severity(enum.Enum):
    """How bad a problem is."""

    WARNING = "warning"
    ERROR = "error"
    AWAY = "away"


class BookieProblem(Struct, frozen=True):
    """Something wrong with a bookie, and what to do."""

    severity: Severity
    what: str


class HeldLedgers(Struct, frozen=True):
    """The ledgers whose metadata names a bookie: how many, how many not closed, and an entry it should have, if any.

    `unreadable` ledgers of the cluster may name it: their metadata cannot be read.
    """

    count: int = 0
    open: int = 0
    sample: tuple[int, int] | None = None
    unreadable: int = 0


class BookieFindings(Struct, frozen=True):
    """The findings about one bookie; None is what could not be determined, or does not exist.

    `read` is the code of its answer to the read of `held.sample`; `clock_off_s` is how far its clock is ahead.
    """

    bookie_id: str
    cluster: str
    registration: BookieRegistration | None = None
    cookie: Cookie | None = None
    cookie_error: str = ""
    held: HeldLedgers = HeldLedgers()
    unreachable: str = ""
    read: int | None = None
    info: BookieInfo | None = None
    clock_off_s: float | None = None


def plan_problems(found: BookieFindings) -> tuple[BookieProblem, ...]:
    """The problems of a bookie, the worst first."""
    problems = [*_away(found), *_wrong(found), *_warnings(found)]
    return tuple(sorted(problems, key=lambda problem: list(Severity).index(problem.severity), reverse=True))


def _away(found: BookieFindings) -> list[BookieProblem]:
    if found.registration is None:
        return [BookieProblem(Severity.AWAY, "it is not registered: start it, or have its ledgers re-replicated")]
    if found.unreachable:
        return [BookieProblem(Severity.AWAY, f"it cannot be reached: {found.unreachable}")]
    return []


def _wrong(found: BookieFindings) -> list[BookieProblem]:
    problems = []
    if found.cookie_error:
        problems.append(BookieProblem(Severity.ERROR, found.cookie_error))
    elif found.cookie is None:
        problems.append(
            BookieProblem(Severity.ERROR, "it has no cookie: it was decommissioned, or its node was deleted")
        )
    elif found.cookie.bookie_id != found.bookie_id:
        problems.append(BookieProblem(Severity.ERROR, f"its cookie is that of {found.cookie.bookie_id}"))
    elif found.cookie.instance_id not in (None, found.cluster):
        problems.append(
            BookieProblem(
                Severity.ERROR, f"its cookie is of the cluster {found.cookie.instance_id}, this one is {found.cluster}"
            )
        )
    wanted = Code.OK if found.held.sample is not None else Code.NO_LEDGER
    if found.read is not None and found.read != wanted:
        asked = (
            "a ledger that is not there"
            if found.held.sample is None
            else "ledger {}, entry {}".format(*found.held.sample)
        )
        problems.append(BookieProblem(Severity.ERROR, f"it answered a read of {asked} with error {found.read}"))
    return problems


def _warnings(found: BookieFindings) -> list[BookieProblem]:
    problems = []
    if found.registration is not None and found.registration.read_only:
        problems.append(BookieProblem(Severity.WARNING, "it is read-only: see whether its disk is full"))
    if found.info is not None and found.info.total_bytes:
        used = 1 - found.info.free_bytes / found.info.total_bytes
        if used > FULL_SHARE:
            problems.append(BookieProblem(Severity.WARNING, f"its disk is used to {used:.1%}"))
    if found.clock_off_s is not None and abs(found.clock_off_s) > CLOCK_OFF_S:
        problems.append(BookieProblem(Severity.WARNING, f"its clock is {found.clock_off_s:+.0f} s off this machine's"))
    return problems


class BookieCheck:
    """Gathers findings about bookies; writes, fences and creates nothing."""

    def __init__(
        self, reader: MetadataReader, pool: BookiePool, root: str = LEDGERS, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Allow `timeout_s` for each request; all bookies are checked at the same time."""
        self._reader, self._pool, self._root, self._timeout_s = reader, pool, root, timeout_s

    async def known(self) -> list[str]:
        """Ids of all bookies that are registered or have a cookie, sorted."""
        try:
            cookies = await self._reader.children(f"{self._root}/cookies")
        except NodeNotFound:
            cookies = []
        registered = {found.bookie_id for found in await self._pool.registrations(fresh=True)}
        return sorted({*cookies, *registered})

    async def look(self, bookie_ids: Sequence[str]) -> list[BookieFindings]:
        """The findings about each, in the order given. StoreUnavailable; NodeNotFound: cluster not initialised."""
        cluster = await instance_id(self._reader, self._root)
        registrations = {found.bookie_id: found for found in await self._pool.registrations(fresh=True)}
        held = await self.held_by(bookie_ids)
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(bookie_id: str) -> BookieFindings:
            async with limit:
                return await self._look_at(bookie_id, cluster, registrations.get(bookie_id), held[bookie_id])

        return await asyncio.gather(*map(one, bookie_ids))

    async def held_by(self, bookie_ids: Collection[str]) -> Mapping[str, HeldLedgers]:
        """For each bookie, the ledgers that name it, found in one pass over all ledgers' metadata."""
        counts = {bookie_id: [0, 0] for bookie_id in bookie_ids}
        samples: dict[str, tuple[int, int]] = {}
        unreadable = 0
        records = LedgerStoreReader(self._reader, self._root)
        async for page in records.list():
            for ledger_id, found in zip(page, await records.read_each(page), strict=True):
                if found is None:
                    continue
                if isinstance(found, RecordError):
                    log.warning("ledger_metadata_unreadable", ledger=ledger_id, error=found)
                    unreadable += 1
                    continue
                metadata = found[0]
                for bookie_id in counts.keys() & {each for segment in metadata.segments for each in segment.bookies}:
                    counts[bookie_id][0] += 1
                    counts[bookie_id][1] += metadata.state is not LedgerState.CLOSED
                    entry = _entry_of(metadata, bookie_id)
                    if entry is not None:
                        samples[bookie_id] = ledger_id, entry
        return {
            each: HeldLedgers(count, still, samples.get(each), unreadable) for each, (count, still) in counts.items()
        }

    async def _look_at(
        self, bookie_id: str, cluster: str, registration: BookieRegistration | None, held: HeldLedgers
    ) -> BookieFindings:
        cookie, trouble = await self._cookie(bookie_id)
        if registration is None:
            return BookieFindings(bookie_id, cluster, None, cookie, trouble, held)
        async with self._pool.waiting_for(bookie_id):
            info, code, clock = await asyncio.gather(
                ask_info(registration.host, registration.port, self._timeout_s, self._pool.connector),
                self._ask_read(bookie_id, held),
                ask_clock(registration.http, self._timeout_s) if registration.http else _nothing(),
                return_exceptions=True,
            )
        unreachable = ""
        for answer in (info, code, clock):
            if isinstance(answer, BookieUnavailable):
                unreachable = unreachable or str(answer)
            elif isinstance(answer, BaseException):
                raise answer
        return BookieFindings(
            bookie_id,
            cluster,
            registration,
            cookie,
            trouble,
            held,
            unreachable,
            None if isinstance(code, BaseException) else code,
            None if isinstance(info, BaseException) else info,
            None if isinstance(clock, BaseException) else clock,
        )

    async def _ask_read(self, bookie_id: str, held: HeldLedgers) -> int:
        """The code of the bookie's answer to a read."""
        connection = await self._pool.connection(bookie_id)
        ledger, entry = held.sample or (NO_SUCH_LEDGER, 0)
        return (await connection.read(ledger, entry))[0]

    async def _cookie(self, bookie_id: str) -> tuple[Cookie | None, str]:
        try:
            return (await read_cookie(self._reader, bookie_id, self._root))[0], ""
        except NodeNotFound:
            return None, ""
        except RecordError as error:
            return None, str(error)


async def _nothing() -> None:
    """The clock of a bookie that serves no HTTP: unknown."""


def _entry_of(metadata: LedgerMetadata, bookie_id: str) -> int | None:
    """The first entry of a closed ledger that a bookie must have: it is in the write set, and Aq is Wq."""
    if metadata.state is not LedgerState.CLOSED or metadata.last_entry < 0:
        return None
    if metadata.ack_quorum < metadata.write_quorum:
        return None  # Aq < Wq: any one copy of an entry may be missing
    for segment, following in zip(metadata.segments, [*metadata.segments[1:], None], strict=True):
        last = metadata.last_entry if following is None else min(metadata.last_entry, following.first_entry - 1)
        for entry in range(segment.first_entry, min(last + 1, segment.first_entry + len(segment.bookies))):
            members = write_set(entry, len(segment.bookies), metadata.write_quorum)
            if bookie_id in {segment.bookies[index] for index in members}:
                return entry
    return None
