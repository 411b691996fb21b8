"""The figures of tenants, namespaces and topics over all snapshots of a directory.

Each snapshot is asked by itself, so memory is bounded by the largest one; what is kept of it is a row for each
namespace and for each of the largest topics of the newest snapshot.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.sql.queries import QueryResources, Snapshots, load_query

LARGEST_TOPICS = load_query("history", "largest_topics")
FIGURES = load_query("history", "figures")
TRENDS = load_query("history", "trends")
NAMESPACE_TRENDS = load_query("history", "namespace_trends")
SCOPE = ("tenant", "namespace", "topic")
"""Options of an export that say which part of a cluster it has."""

_TIME = pa.timestamp("us")


def plan_history(found: Sequence[tuple[Destination, Manifest]], most: int) -> tuple[tuple[Destination, Manifest], ...]:
    """The newest `most` snapshots that have the same part of the same cluster as the newest, oldest first.

    Two of the same moment are one: the last by name. A cluster is told by the place that it was read from.
    """
    if not found:
        return ()
    wanted = found[-1][1]
    same = (each for each in found if _scope(each[1]) == _scope(wanted) and is_of_same_place(each[1], wanted))
    return tuple({each[1].time_ms: each for each in same}.values())[-most:]


def is_of_same_place(one: Manifest, other: Manifest) -> bool:
    """Whether two snapshots were read from the same place; a directory may have snapshots of several clusters."""
    return one.request.origin == other.request.origin


def read_history(
    newest: Snapshots, kept: Sequence[tuple[Destination, Manifest]], resources: QueryResources
) -> pa.Table:
    """The rows of FIGURES of every snapshot in `kept`, with the column `time`; `newest` is the last of them, open.

    Raises QueryTooLarge, DestinationNotReadable.
    """
    largest = newest.ask(LARGEST_TOPICS)
    read = []
    for place, manifest in kept:
        if manifest.name == newest.manifest.name:
            read.append(_figures(newest, largest))
            continue
        with Snapshots(place, manifest, resources=resources) as older:
            read.append(_figures(older, largest))
    return pa.concat_tables(read)


def _figures(snapshots: Snapshots, largest: pa.Table) -> pa.Table:
    snapshots.add_table("largest_topics", largest)
    rows = snapshots.ask(FIGURES)
    time = datetime.fromtimestamp(snapshots.manifest.time_ms / 1000, UTC).replace(tzinfo=None)
    return rows.append_column("time", pa.array([time] * rows.num_rows, _TIME))


def _scope(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    return tuple(each for each in manifest.request.options if each[0] in SCOPE)
