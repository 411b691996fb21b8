"""Settings of a BookKeeper client."""

from msgspec import Struct

from mledger.bookie.client.plans.topology import PlacementPolicy
from mledger.bookie.client.tls_settings import BookieTls
from mledger.bookie.wire import LARGEST_FRAME, MAX_FRAME


class ClientConfig(Struct, frozen=True):
    """Time-outs, in seconds, and sizes; defaults are Pulsar's where it has the setting."""

    add_timeout_s: float = 30.0
    """A bookie that owes acknowledgements and sends none for so long is replaced."""
    stall_timeout_s: float = 5.0
    """The same for a bookie whose send buffer is full, if it acknowledges no ledger's adds; appends wait for it."""
    read_timeout_s: float = 10.0
    speculative_read_s: float = 2.0
    """After so long without an answer to a read, another bookie is asked, if there is one."""
    silence_timeout_s: float = 10.0
    """A bookie that sends nothing at all for so long while reads wait for it counts as silent."""
    connect_timeout_s: float = 5.0
    replace_retry_s: float = 1.0
    """How long until a failed bookie without a replacement is tried again; doubled each time, up to a minute."""
    quarantine_s: float = 30.0
    """For so long, a bookie that failed is used in new ensembles only if there is no other."""
    metadata_timeout_s: float = 60.0
    """How long an update of ledger metadata is retried while the metadata store does not answer."""
    placement: PlacementPolicy = PlacementPolicy()
    """The racks over which the bookies of an ensemble are placed."""
    max_frame: int = MAX_FRAME
    """The most bytes of an add request, and of an answer to a batch read that has more than one entry."""
    max_answer: int = LARGEST_FRAME
    """The most bytes of any answer: what other clients have written may pass this one's own limit."""
    ledgers_root: str = "/ledgers"
    tls: BookieTls | None = None
    """How connections are encrypted; None: as the file that `MLEDGER_BOOKIE_TLS` names says, without one not at all."""
