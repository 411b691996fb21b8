"""The disks of bookies: no metadata has them, so that each registered bookie is asked, if the exporter may."""

import asyncio

from mledger.bookie.client.connections.bookie_info import BookieInfo, ask_info
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.cluster.bookies import BookieRegistration, list_bookies
from mledger.metastore.errors import MetadataAccessDenied, NodeNotFound
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader

AT_ONCE = 16
TIMEOUT_S = 5.0

log = get_logger(__name__)


async def ask_disks(
    reader: MetadataReader, connector: BookieConnector, timeout_s: float = TIMEOUT_S
) -> dict[str, BookieInfo]:
    """The disks of the registered bookies by id; one that does not answer in time is left out. StoreUnavailable."""
    try:
        registered = await list_bookies(reader)
    except (NodeNotFound, MetadataAccessDenied) as error:
        log.warning("bookies_not_asked", error=error)
        return {}
    limit = asyncio.Semaphore(AT_ONCE)

    async def ask(bookie: BookieRegistration) -> BookieInfo | None:
        async with limit:
            try:
                return await ask_info(bookie.host, bookie.port, timeout_s, connector)
            except BookieUnavailable as error:
                log.info("bookie_did_not_answer", bookie=bookie.bookie_id, error=error)
                return None

    answers = await asyncio.gather(*map(ask, registered))
    return {
        bookie.bookie_id: disk
        for bookie, disk in zip(registered, answers, strict=True)
        if disk is not None and disk.total_bytes > 0
    }
