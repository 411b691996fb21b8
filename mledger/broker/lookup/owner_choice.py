"""Which broker is to own a bundle that nobody owns. No I/O.

Every broker decides alone: there is no leader. Two that decide at once may name different brokers;
the bundle's node then has one owner all the same, since only one can create it.
"""

from collections.abc import Collection, Iterable, Mapping

from mledger.broker.lookup.broker_records import BrokerAddress, BrokerReport


def plan_owner(
    reports: Iterable[BrokerReport], assigned: Mapping[str, str], bundle: str, excluded: Collection[str] = ()
) -> BrokerAddress | None:
    """The broker with the fewest bundles that is not `excluded`; None if there is none.

    `assigned` are the brokers, by name, to which bundles were assigned lately: they count, since the
    reports may not show them yet. A bundle that is assigned already stays with its broker. Of equal
    brokers the first by name is taken.
    """
    live = {each.address.name: each for each in reports if each.address.name not in excluded}
    if assigned.get(bundle) in live:
        return live[assigned[bundle]].address
    counts = {name: each.count for name, each in live.items()}
    for other, name in assigned.items():
        if name in live and other not in live[name].bundles:
            counts[name] += 1
    best = min(counts, key=lambda name: (counts[name], name), default=None)
    return None if best is None else live[best].address
