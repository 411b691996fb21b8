"""The disks of bookies: no metadata has them, so that each registered bookie is asked, if the exporter may."""

import asyncio

from mledger.bookie.client.connections.bookie_info import BookieInfo, ask_info
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.cluster.bookies import BookieRegistration, list_bookies
from mledger.metastore.errors import MetadataAccessDenied, NodeNotFound
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import MetadataReader

AT_ONCE = 16
TIMEOUT_S = 5.0
ALL_TIMEOUT_S = 20.0
"""For all bookies together: a round waits no longer, however many do not answer."""

log = get_logger(__name__)


async def ask_disks(
    reader: MetadataReader,
    connector: BookieConnector,
    timeout_s: float = TIMEOUT_S,
    all_timeout_s: float = ALL_TIMEOUT_S,
) -> dict[str, BookieInfo]:
    """The disks of the registered bookies by id; one that does not tell them in time is left out.

    `timeout_s` is for each bookie, `all_timeout_s` for all of them.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    try:
        registered = await list_bookies(reader)
    except (NodeNotFound, MetadataAccessDenied) as error:
        log.warning("bookies_not_asked", error=error)
        return {}
    answers: dict[str, BookieInfo | None] = {}
    places, place_s = asyncio.Semaphore(AT_ONCE), plan_place(len(registered), timeout_s, all_timeout_s)
    asking: list[asyncio.Task[None]] = []

    async def begin(bookie: BookieRegistration) -> None:
        async with places:  # a silent bookie is still waited for when its place is another's
            asking.append(asyncio.ensure_future(_ask(bookie, timeout_s, connector, answers)))
            await asyncio.wait(asking[-1:], timeout=place_s)

    try:
        async with TimeLimit(all_timeout_s):
            await asyncio.gather(*map(begin, registered))
            await asyncio.gather(*asking)
    except TimeoutError:
        log.warning("bookies_left_out", count=len(registered) - len(answers), seconds=all_timeout_s)
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return {bookie: disk for bookie, disk in answers.items() if disk is not None and disk.total_bytes > 0}


def plan_place(bookies: int, timeout_s: float, all_timeout_s: float) -> float:
    """Seconds for which a silent bookie has one of the AT_ONCE places: all bookies are asked in time to answer."""
    left_s = max(all_timeout_s - timeout_s, all_timeout_s / 2)
    return min(timeout_s, left_s / max(1, -(-bookies // AT_ONCE)))


async def _ask(
    bookie: BookieRegistration, timeout_s: float, connector: BookieConnector, answers: dict[str, BookieInfo | None]
) -> None:
    """Add a bookie's answer to `answers`, None if there is none."""
    answer = None
    try:
        answer = await ask_info(bookie.host, bookie.port, timeout_s, connector)
        if answer is None:
            log.info("bookie_refused_disks", bookie=bookie.bookie_id)
    except BookieUnavailable as error:
        log.info("bookie_did_not_answer", bookie=bookie.bookie_id, error=error)
    answers[bookie.bookie_id] = answer
