"""Settings of a BookKeeper client."""

from dataclasses import dataclass

from mledger.bookie.client.plans.topology import PlacementPolicy
from mledger.bookie.wire import MAX_FRAME


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How long to wait, in seconds, and how much to send; defaults are Pulsar's where it has the setting."""

    add_timeout_s: float = 120.0
    """A bookie that acknowledges nothing for so long, while it owes something, is replaced."""
    stall_timeout_s: float = 5.0
    """The same for a bookie whose send buffer is full: appends wait for it meanwhile."""
    read_timeout_s: float = 10.0
    speculative_read_s: float = 2.0
    """A bookie that has not answered a read for so long is not waited for where another can be asked."""
    silence_timeout_s: float = 10.0
    """A bookie from which nothing at all has come for so long, while reads wait for it, is taken to be silent."""
    connect_timeout_s: float = 5.0
    replace_retry_s: float = 1.0
    """After so long a failed bookie without a replacement is tried again; doubled each time, a minute at most."""
    quarantine_s: float = 30.0
    """A bookie that failed is taken for new ensembles only where there is no other, for so long."""
    metadata_timeout_s: float = 60.0
    """How long an update of ledger metadata is tried again while the metadata store does not answer."""
    placement: PlacementPolicy = PlacementPolicy()  # noqa: RUF009 - frozen
    """On which racks the bookies of an ensemble are to stand."""
    max_frame: int = MAX_FRAME
    """Bytes that an add request or an answer may have."""
    ledgers_root: str = "/ledgers"
