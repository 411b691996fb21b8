"""The mark of subscriptions whose state Pulsar's brokers replicate to other clusters: kept for them.

It is a property of the position, so that every state of the cursor has it.
"""

import asyncio
from collections.abc import Mapping

from mledger.cursors.cursor import Cursor
from mledger.metastore.records.values import REPLICATED_SUBSCRIPTION


def mark_of(properties: Mapping[str, int]) -> dict[str, int]:
    """The mark among the properties of a position: as in Pulsar an acknowledgement leaves that as it is."""
    return {name: value for name, value in properties.items() if name == REPLICATED_SUBSCRIPTION}


def is_marked(properties: Mapping[str, int]) -> bool:
    """Whether the properties of a position have the mark."""
    return REPLICATED_SUBSCRIPTION in properties


def plan_marked(properties: Mapping[str, int], *, marked: bool) -> dict[str, int]:
    """The properties of a position with the mark, or without."""
    left = {name: value for name, value in properties.items() if name != REPLICATED_SUBSCRIPTION}
    return left | ({REPLICATED_SUBSCRIPTION: 1} if marked else {})


async def mark_replicated(cursor: Cursor, *, marked: bool) -> None:
    """Mark a subscription, or take the mark off; durable on return.

    Raises:
        MledgerError: it cannot be written.
    """
    if is_marked(cursor.properties) is not marked:
        marking = cursor.set_position_properties(plan_marked(cursor.properties, marked=marked))
        await asyncio.gather(marking, cursor.flush())
