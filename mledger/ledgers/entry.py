"""An entry of a topic, as readers get it."""

from typing import NamedTuple

from mledger.metastore.records.position import Position


class Entry(NamedTuple):
    """An entry as read: where it is and its payload."""

    position: Position
    payload: bytes
