"""Deduplication's cursor: the properties of its position are the sequence ids of all messages up to there; no I/O."""

from mledger.errors import InvalidPosition
from mledger.metastore.records.position import Position

DEDUPLICATION = "pulsar.dedup"
"""The cursor of deduplication."""


def check_not_passed(before: Position, after: Position) -> None:
    """Raise InvalidPosition if a command moves deduplication's cursor over messages that its properties lack (C7)."""
    if after > before:
        raise InvalidPosition(
            f"{DEDUPLICATION} holds what brokers read for deduplication when they open the topic: at {after} instead "
            f"of {before} they would store messages again that producers sent before; brokers move it by themselves"
        )
