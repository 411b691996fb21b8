"""Positions in the JSON of requests and answers: Pulsar's message ids. No I/O."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mledger.broker.admin_rest.body_checks import MAX_LONG, json_object, number_of, texts
from mledger.broker.admin_rest.refusals import bad_request, precondition
from mledger.cursors.positions import EARLIEST, LATEST
from mledger.metastore.records.position import Position

_NAMED = {"earliest": EARLIEST, "latest": LATEST}
_WORD = 64
MOST_IN_BATCH = 1 << 20
"""Many times what clients put into one."""


class MessagePlace(Struct, frozen=True):
    """Where a request points: an entry, perhaps a message of its batch; `excluded`: at what follows it."""

    position: Position
    batch_index: int = -1
    excluded: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


def plan_place(body: Any) -> MessagePlace:
    """The place that a body names: earliest, latest, or a message id. AdminRefusal."""
    if isinstance(body, str):
        if body not in _NAMED:
            raise bad_request(f"{body!r} is no position: give earliest, latest or a message id")
        return MessagePlace(_NAMED[body])
    found = json_object(body, "a message id")
    numbers = [number_of(found.get(name, -1), name, low=-1, most=MAX_LONG) for name in ("ledgerId", "entryId")]
    batch_index = number_of(found.get("batchIndex", -1), "batchIndex", low=-1)
    properties = texts(found.get("properties"), "the properties")
    return MessagePlace(Position(*numbers), batch_index, found.get("excluded") is True, properties)


def plan_ack_set(first: int, messages: int) -> tuple[int, ...]:
    """The words of a batch of so many messages of which those before `first` are acknowledged; () if none are.

    AdminRefusal for more messages than a batch has: its producer may have given any number.
    """
    if not 0 < first < messages:
        return ()
    if messages > MOST_IN_BATCH:
        raise precondition(
            f"the message says that it is a batch of {messages}: no batch has so many, seek to its entry"
        )
    words = [_bits(first - at, messages - at) for at in range(0, messages, _WORD)]
    return tuple(word - (1 << _WORD) if word >> (_WORD - 1) else word for word in words)


def _bits(first: int, end: int) -> int:
    """A word with the bits from `first` to before `end`, as far as it has them."""
    return ((1 << min(end, _WORD)) - 1) & ~((1 << max(first, 0)) - 1) if first < _WORD else 0


def message_id(position: Position, partition: int = -1, batch_index: int = -1) -> dict[str, int]:
    """A message id as Pulsar's admin API gives it."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": partition,
        "batchIndex": batch_index,
        "batchSize": 0,
    }
