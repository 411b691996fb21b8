"""Racks and regions of bookies, and which groups of them may be used: decisions only, no I/O (Q1).

The mapping is Pulsar's `/bookies`. A bookie is looked up by its id, then by the host and port that it registered, then
by its host alone. One that has no rack stands on the default rack.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.racks import RackGroups

DEFAULT_RACK = "/default-rack"
DEFAULT_REGION_RACK = "/default-region/default-rack"


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """What is asked of the racks of an ensemble; defaults are Pulsar's."""

    rack_aware: bool = True
    """Spread the bookies of each write set over racks, as far as there are racks."""
    region_aware: bool = False
    """Spread them over regions first: racks are `/region/rack`."""
    min_racks: int = 2
    """Racks that each write set needs where that is enforced; never more than the write quorum."""
    enforce_min_racks: bool = False
    """Rather make no ledger than one whose write sets span fewer; bookies without a rack are not used then."""
    isolation_groups: frozenset[str] = frozenset()
    """Of the groups in the mapping only these are used."""
    secondary_isolation_groups: frozenset[str] = frozenset()
    """Groups that are used too where those have fewer bookies than an ensemble."""

    @property
    def needs_racks(self) -> bool:
        """Whether nothing can be placed while the mapping is not known."""
        return self.enforce_min_racks or bool(self.isolation_groups)


@dataclass(frozen=True, slots=True)
class Topology:
    """The racks of bookies under a policy."""

    policy: PlacementPolicy = PlacementPolicy()
    racks: Mapping[str, str] = field(default_factory=dict)
    """Of bookies that have one, as paths."""

    @property
    def default_rack(self) -> str:
        """Where bookies stand that have no rack."""
        return DEFAULT_REGION_RACK if self.policy.region_aware else DEFAULT_RACK

    def rack_of(self, bookie: str) -> str:
        """The rack, with its region where it has one; the same for all without awareness of racks."""
        if not (self.policy.rack_aware or self.policy.region_aware):
            return self.default_rack
        return self.racks.get(bookie, self.default_rack)

    def region_of(self, bookie: str) -> str:
        """The first part of its rack; the same for all without awareness of regions."""
        if not self.policy.region_aware:
            return ""
        parts = self.rack_of(bookie).strip("/").split("/")
        return parts[0] if len(parts) > 1 else ""


ONE_RACK = Topology(PlacementPolicy(rack_aware=False))
"""All bookies are alike."""


def plan_topology(
    policy: PlacementPolicy, groups: RackGroups, registrations: Collection[BookieRegistration]
) -> Topology:
    """Where the registered bookies stand by the mapping."""
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
    """Bookies that the isolation groups keep from being used: those of other groups, as in Pulsar.

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
