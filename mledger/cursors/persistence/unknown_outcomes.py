"""Finds out, without anybody asking, whether a write whose response was lost was carried out (M7)."""

import asyncio
from collections.abc import Awaitable, Callable

from mledger.errors import ManagedLedgerFenced
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

ASK_FIRST_S = 0.5
ASK_LAST_S = 30.0


async def ask_until_known(settle: Callable[[], Awaitable[object]], what: str, **fields: object) -> None:
    """Call `settle` with growing delays until it returns, or another owner has the topic.

    `what` names the warning that each failure logs, and `fields` describe it.
    """
    delay = ASK_FIRST_S
    while True:
        await asyncio.sleep(delay)
        try:
            await settle()
            return
        except ManagedLedgerFenced:
            return
        except MledgerError as error:
            log.warning(what, **fields, error=error)
        delay = min(ASK_LAST_S, 2 * delay)
