"""Racks and regions of bookies, and the isolation groups that may be used: decisions only, no I/O (Q1).

The mapping is Pulsar's `/bookies`. A bookie is looked up by its id, then by its registered host and port, then by its
host alone. A bookie without a rack is on the default rack.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.racks import RackGroups

DEFAULT_RACK = "/default-rack"
DEFAULT_REGION_RACK = "/default-region/default-rack"


class PlacementPolicy(Struct, frozen=True):
    """The rack requirements for an ensemble; defaults are Pulsar's."""

    rack_aware: bool = True
    """Spread the bookies of each write set over racks, as far as there are racks."""
    region_aware: bool = False
    """Spread them over regions first: racks are `/region/rack`."""
    min_racks: int = 2
    """The minimum of racks for each write set, if enforced; never more than the write quorum."""
    enforce_min_racks: bool = False
    """Create no ledger whose write sets span fewer racks; bookies without a rack are then not used."""
    isolation_groups: frozenset[str] = frozenset()
    """Only these groups of the mapping are used."""
    secondary_isolation_groups: frozenset[str] = frozenset()
    """Groups that are also used if those have fewer bookies than an ensemble."""

    @property
    def needs_racks(self) -> bool:
        """Whether no ensemble can be chosen while the mapping is unknown."""
        return self.enforce_min_racks or bool(self.isolation_groups)


class Topology(Struct, frozen=True):
    """The racks of bookies under a policy."""

    policy: PlacementPolicy = PlacementPolicy()
    racks: Mapping[str, str] = field(default_factory=dict)
    """The racks of bookies that have one, as paths."""

    @property
    def default_rack(self) -> str:
        """The rack of bookies that have none."""
        return DEFAULT_REGION_RACK if self.policy.region_aware else DEFAULT_RACK

    def rack_of(self, bookie: str) -> str:
        """The rack, with its region if it has one; the same for all if racks are ignored."""
        if not (self.policy.rack_aware or self.policy.region_aware):
            return self.default_rack
        return self.racks.get(bookie, self.default_rack)

    def region_of(self, bookie: str) -> str:
        """The first part of its rack; the same for all if regions are ignored."""
        if not self.policy.region_aware:
            return ""
        parts = self.rack_of(bookie).strip("/").split("/")
        return parts[0] if len(parts) > 1 else ""


ONE_RACK = Topology(PlacementPolicy(rack_aware=False))
"""A topology in which all bookies are alike."""


def plan_topology(
    policy: PlacementPolicy, groups: RackGroups, registrations: Collection[BookieRegistration]
) -> Topology:
    """The topology of the registered bookies, by the mapping."""
    named = {bookie: _path(rack) for group in groups.values() for bookie, rack in group.items()}
    by_host = {name.rpartition(":")[0]: rack for name, rack in named.items() if rack and ":" in name}
    racks = {}
    for found in registrations:
        names = (found.bookie_id, f"{found.host}:{found.port}", found.host)
        rack = next((named[name] for name in names if name in named), by_host.get(found.host))
        if rack is not None:
            racks[found.bookie_id] = rack
    return Topology(policy, racks)


def plan_isolated(
    policy: PlacementPolicy, groups: RackGroups, ensemble_size: int, writable: Collection[str]
) -> frozenset[str]:
    """Bookies that the isolation groups exclude: those of other groups, as in Pulsar.

    Bookies in no group at all are used. The secondary groups join where the primary ones have fewer writable bookies
    than `ensemble_size`.
    """
    if not policy.isolation_groups:
        return frozenset()
    allowed = {bookie for name in policy.isolation_groups for bookie in groups.get(name, ())}
    if len(allowed & set(writable)) < ensemble_size:
        allowed |= {bookie for name in policy.secondary_isolation_groups for bookie in groups.get(name, ())}
    return frozenset(bookie for group in groups.values() for bookie in group) - allowed


def _path(rack: str | None) -> str | None:
    text = (rack or "").strip()
    if not text.strip("/"):
        return None
    return text if text.startswith("/") else f"/{text}"
