"""An entry of a topic, as readers receive it."""

from typing import NamedTuple

from mledger.metastore.records.position import Position


class Entry(NamedTuple):
    """An entry: its position and its payload."""

    position: Position
    payload: bytes
