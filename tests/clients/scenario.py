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
            "queue": QUEUES.get(self.client, 20),
            "paced": self.disturbance != "none",
            # In key-shared subscriptions nobody else gets the keys of what a consumer holds unacknowledged: one that
            # subscribes anew, later than the other, would wait for the end of the run.
            "leaves": self.type != "key_shared" or self.disturbance not in RECONNECTING,
        }


def is_possible(row: Row) -> bool:
    """Whether clients have such a combination. The row may lack dimensions."""
    return not any(each.items() <= row.items() for each, _ in IMPOSSIBLE)


_ORDERLESS = "there is no order up to a message"
_AGAIN = "clients lose chunks that they ask for again"
IMPOSSIBLE: tuple[tuple[Row, str], ...] = (
    ({"chunking": True, "batching": True}, "clients split only messages outside batches"),
    ({"ack": "cumulative", "type": "shared"}, _ORDERLESS),
    ({"ack": "cumulative", "type": "key_shared"}, _ORDERLESS),
    ({"ack": "cumulative", "redelivery": "negative"}, "what is asked for again would be acknowledged after all"),
    ({"ack": "cumulative", "chunking": True}, "the chunks of several messages lie between each other"),
    ({"ack": "batch_index", "batching": False}, "there is no batch"),
    ({"ack": "batch_index", "chunking": True}, "there is no batch"),
    ({"chunking": True, "seek": "id"}, "what began before the message sought never comes whole again"),
    ({"chunking": True, "redelivery": "negative"}, _AGAIN),
    ({"chunking": True, "redelivery": "all"}, _AGAIN),
    *(({"chunking": True, "disturbance": each}, "clients lose what they have of it") for each in RECONNECTING),
    ({"partitions": 3, "seek": "id"}, "clients seek to ids only in topics that have no partitions"),
    *(
        (
            {"type": "failover", "ack": "cumulative", "seek": each},
            "the consumer that did not seek still drops what it acknowledged cumulatively",
        )
        for each in ("earliest", "id", "time")
    ),
    *(({"delay_ms": 2000, "type": each}, "such subscriptions deliver at once") for each in SINGLE),
    ({"delay_ms": 2000, "ack": "cumulative"}, _ORDERLESS),
)
"""Combinations that clients do not have, or in which they lose messages that they were sent, from any broker."""

QUEUES = {"go": 1000}
"""Go's client grants the permits of acknowledged batch indexes twice: with a short queue it stops to read."""
_KEEPS_ACK = "after a seek the client still drops what it acknowledged cumulatively, if that was sent before the seek"
_DROPS_ALL = (
    "a redelivery that its reader asks for while the consumer subscribes anew raises the client's epoch alone: it drops"
    " every message from then on"
)
_SOUGHT_APART = "the client drops what one partition sends while another still seeks"
LACKS: dict[str, tuple[tuple[Row, str], ...]] = {
    "python": (
        ({"receipts": True}, "the client has no option for them"),
        *(({"partitions": 3, "seek": each}, _SOUGHT_APART) for each in ("earliest", "time")),
    ),
    "java": (
        *(
            ({"type": kind, "redelivery": redelivery, "disturbance": each}, _DROPS_ALL)
            for kind in SINGLE
            for redelivery in ("negative", "all")
            for each in RECONNECTING
        ),
        *(({"partitions": 3, "seek": each}, _SOUGHT_APART) for each in ("earliest", "time")),
    ),
    "go": (
        ({"redelivery": "all"}, "the client has no such call"),
        *(({"ack": "cumulative", "seek": each}, _KEEPS_ACK) for each in ("earliest", "id", "time")),
    ),
}
"""Values and combinations that a client does not have, or in which it loses messages that it was sent.

Some were run again and again, on our broker and on Java's. Of runs with a seek in partitions, Java's client did not
find all that it sought in 1 of 80 on ours and 6 of 40 on Java's. Python's and Go's found it in all 120; Python's still
drops messages in its code. Of runs with chunks that are acknowledged cumulatively, 2 of 60 lost one on each broker.
"""


def scenarios(client: str) -> list[Scenario]:
    """The covering array of a client, without what it lacks."""
    left_out = [row for row, _ in LACKS[client]]
    alone = {next(iter(each.items())) for each in left_out if len(each) == 1}
    dimensions = {
        name: [value for value in values if (name, value) not in alone] for name, values in DIMENSIONS.items()
    }

    def allowed(row: Row) -> bool:
        return is_possible(row) and not any(each.items() <= row.items() for each in left_out)

    return [Scenario(client, **row) for row in covering_array(dimensions, allowed)]  # type: ignore[arg-type]
