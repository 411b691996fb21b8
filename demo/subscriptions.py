"""What the demo's four subscriptions acknowledge, by row: the owner acknowledges it, the recount expects it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import mledger
from demo.flights import ROWS

TOPIC = "persistent://public/demo/flights"
# Every ledger is retained for reading back, consumed or not; trimming comes last.
CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    max_entries_per_ledger=50_000,
    minimum_rollover_time_ms=0,
    retention_time_ms=-1,
    retention_size_in_mb=-1,
)
CLEAN_RESTART_AT = 100_000  # rows
TRIMMING = replace(CONFIG, retention_time_ms=0, retention_size_in_mb=0)

BILLING = "billing"
AUDIT = "audit"
DASHBOARD = "dashboard"
EXPORT = "export"


@dataclass(frozen=True, slots=True)
class DemoSubscription:
    """A subscription and what it acknowledges: all of the first `cumulative` rows, then those of `individual`.

    From row `in_flight` on, the owner acknowledges one row after another without waiting, until it is killed. If the
    cursor ledger is destroyed, the cursor may fall back to `fallback` rows, no further.
    """

    name: str
    what: str
    cumulative: int
    individual: range = range(0)
    hole_every: int = 0
    in_flight: int | None = None
    closed: bool = False
    fallback: int | None = None

    def individual_rows(self) -> Iterator[int]:
        """The rows acknowledged one by one, without the holes."""
        return (row for row in self.individual if row % self.hole_every)


SUBSCRIPTIONS = (
    DemoSubscription(BILLING, "cumulative, closed cleanly", 200_000, closed=True),
    DemoSubscription(
        AUDIT, "one by one with holes, then killed", 120_000, range(120_000, 240_000), hole_every=10, in_flight=240_000
    ),
    DemoSubscription(DASHBOARD, "ahead of the others", ROWS - 76),
    DemoSubscription(EXPORT, "its cursor ledger is destroyed", 300_000, fallback=CLEAN_RESTART_AT),
)
