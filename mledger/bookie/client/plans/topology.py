"""Racks and regions of bookies, and the isolation groups that may be used: decisions only, no I/O (Q1).

The mapping is Pulsar's `/bookies`. A bookie is looked up by its id, then by its registered host and port, then by its
host alone. A bookie without a rack is on the default rack.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.racks import RackGroups
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup

DEFAULT_RACK = "/default-rack"
DEFAULT_REGION_RACK = "/default-region/default-rack"
_ANY_GROUP = "*"


class IsolationGroups(Struct, frozen=True):
    """The groups whose bookies an ensemble may use."""

    primary: frozenset[str]
    secondary: frozenset[str] = frozenset()
    """Groups that are also used if those have fewer writable bookies than the ensemble."""

    @property
    def is_any(self) -> bool:
        """Whether every bookie may be used."""
        return _ANY_GROUP in self.primary


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


def plan_isolation(policy: PlacementPolicy, affinity: BookieAffinityGroup | None) -> IsolationGroups | None:
    """The groups that a ledger is placed on: those that it asks for itself, else the client's, if any."""
    if affinity is not None:
        return IsolationGroups(affinity.primary_groups, affinity.secondary_groups)
    if policy.isolation_groups:
        return IsolationGroups(policy.isolation_groups, policy.secondary_isolation_groups)
    return None


def plan_isolated(
    isolation: IsolationGroups | None, groups: RackGroups, ensemble_size: int, writable: Collection[str]
) -> frozenset[str]:
    """Bookies that the isolation groups exclude: those of other groups, and those in no group, as in Pulsar 4.

    The secondary groups join where the primary ones have fewer writable bookies than `ensemble_size`. Bookies in no
    group join where both together have fewer.
    """
    if isolation is None or isolation.is_any or not groups:
        return frozenset()
    known = set(writable)
    allowed = _members(isolation.primary, groups)
    if len(allowed & known) < ensemble_size:
        allowed |= _members(isolation.secondary, groups)
    grouped = _members(groups.keys(), groups)
    others = grouped if len(allowed & known) < ensemble_size else grouped | known
    return frozenset(others - allowed)


def _members(names: Collection[str], groups: RackGroups) -> set[str]:
    return {bookie for name in names for bookie in groups.get(name, ())}


def _path(rack: str | None) -> str | None:
    text = (rack or "").strip()
    if not text.strip("/"):
        return None
    return text if text.startswith("/") else f"/{text}"
