"""What the owners of a topic were told, all together."""

from dataclasses import dataclass, field

from mledger.metastore.records.position import Position
from tests.faults.checker import Acknowledged, OwnerAppends


@dataclass
class KnownCursor:
    """A cursor that an owner was told to be there, and its acknowledgements: asked for, and durable."""

    issued: Acknowledged = field(default_factory=Acknowledged)
    durable: Acknowledged = field(default_factory=Acknowledged)


@dataclass
class KnownTopic:
    """What all owners know together."""

    given: list[OwnerAppends] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    """Where acknowledged entries are."""
    cursors: dict[str, KnownCursor] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    """Cursors that somebody asked to delete."""
    opening: set[str] = field(default_factory=set)
    """Who is opening the topic, or died while opening it."""
    holding: set[str] = field(default_factory=set)
    """Who has opened the topic and may still think that it owns it."""
    openings: int = 0
    """How often somebody began to open the topic, or was done with it."""
