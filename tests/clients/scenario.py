"""What a client does in one run, which combinations are run, and which are not and why.

A run goes through phases. `first`: producers send numbered messages with keys, and consumers acknowledge some of them,
while the disturbance happens. `sought`: the subscription is set back, and what comes again is acknowledged. `resumed`:
all consumers have closed, one subscribes anew and reads what is left up to a last message of each partition.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tests.clients.pairwise import Row, covering_array

CLIENTS = ("python", "java", "go")
DISTURBANCES = ("none", "broker killed", "bookie killed", "owner moved", "connection cut")
RECONNECTING = ("broker killed", "owner moved", "connection cut")
"""Disturbances after which clients connect or subscribe anew."""
DIMENSIONS: dict[str, Sequence[object]] = {
    "type": ("exclusive", "failover", "shared", "key_shared"),
    "batching": (False, True),
    "compression": ("none", "lz4", "zlib", "zstd", "snappy"),
    "ack": ("individual", "cumulative", "batch_index"),
    "receipts": (True, False),
    "redelivery": ("none", "negative", "all"),
    "delay_ms": (0, 2000),
    "chunking": (False, True),
    "seek": ("none", "earliest", "id", "time"),
    "schema": ("bytes", "string", "json", "avro"),
    "partitions": (0, 3),
    "disturbance": DISTURBANCES,
}
SINGLE = ("exclusive", "failover")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of one client. What the drivers are given, and what `disturbance` happens meanwhile."""

    client: str = "python"
    type: str = "exclusive"
    batching: bool = False
    compression: str = "none"
    ack: str = "individual"
    receipts: bool = False  # whether the broker answers acknowledgements
    redelivery: str = "none"
    delay_ms: int = 0  # of every fifth message
    chunking: bool = False
    seek: str = "none"
    schema: str = "bytes"
    partitions: int = 0
    disturbance: str = "none"

    @property
    def name(self) -> str:
        """What differs from a plain run."""
        plain = Scenario()
        differing = [each.name for each in fields(self) if getattr(self, each.name) != getattr(plain, each.name)]
        words = [self.client, self.type]
        for field in differing:
            value = getattr(self, field)
            if field not in ("client", "type"):
                words.append(field if value is True else f"{field}={value}")
        return ",".join(words).replace(" ", "-")

    def order(self, url: str, topic: str) -> dict[str, Any]:
        """The run as the drivers read it."""
        given = asdict(self)
        del given["client"], given["disturbance"]
        return given | {
            "name": self.name,
            "url": url,
            "topic": topic,
            "subscription": "judged",
            "consumers": 1 if self.type == "exclusive" else 2,
            "producers": 2,
            "messages": 12 if self.chunking else 40,  # of each producer, at least
            "large": 180_000,
            "queue": 20,
            "paced": self.disturbance != "none",
        }


def is_possible(row: Row) -> bool:
    """Whether Pulsar has such a combination. The row may lack dimensions."""
    single = row.get("type") in SINGLE
    return not any(
        (
            row.get("chunking") and row.get("batching"),
            row.get("ack") == "cumulative" and "type" in row and not single,
            row.get("ack") == "cumulative"
            and row.get("redelivery") == "negative",  # it would be acknowledged after all
            row.get("ack") == "batch_index" and (row.get("batching") is False or row.get("chunking")),
            row.get("chunking")
            and row.get("redelivery", "none") != "none",  # clients lose chunks that they ask for again
            row.get("chunking") and row.get("disturbance") in RECONNECTING,  # what they have of it, they lose then, too
            row.get("seek") == "id" and row.get("partitions"),  # an id is of one partition
            row.get("delay_ms") and (single or row.get("ack") == "cumulative"),  # such subscriptions deliver at once
        )
    )


LACKS = {
    "python": {("receipts", True): "the client has no option for them"},
    "java": {},
    "go": {("redelivery", "all"): "the client has no such call"},
}
"""Values that a client does not have."""

_NO_SCHEMAS = "the broker keeps no schemas yet"
NOT_SERVED: dict[tuple[str, object], str] = {
    ("type", "key_shared"): "the dispatcher is not connected to subscriptions yet",
    ("schema", "string"): _NO_SCHEMAS,
    ("schema", "json"): _NO_SCHEMAS,
    ("schema", "avro"): _NO_SCHEMAS,
}
"""Values that the broker does not serve yet. It is to become empty."""


def scenarios(client: str, without: Sequence[tuple[str, object]] = ()) -> list[Scenario]:
    """The covering array of a client, without values that it lacks and without these."""
    left_out = {*LACKS[client], *without}
    dimensions = {
        name: [value for value in values if (name, value) not in left_out] for name, values in DIMENSIONS.items()
    }
    rows = covering_array(dimensions, is_possible)
    return [Scenario(client, **row) for row in rows]  # type: ignore[arg-type]
