"""The figures of tenants, namespaces and topics over all snapshots of a directory.

Each snapshot is asked by itself, so memory is bounded by the largest one; what is kept of it is a row for each
namespace and for each of the largest topics of the newest snapshot.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.exports.selection import is_of_same_part
from mledger.snapshot.sql.queries import QueryResources, Snapshots, load_query

LARGEST_TOPICS = load_query("history", "largest_topics")
FIGURES = load_query("history", "figures")
TRENDS = load_query("history", "trends")
NAMESPACE_TRENDS = load_query("history", "namespace_trends")

_TIME = pa.timestamp("us")


def plan_history(found: Sequence[tuple[Destination, Manifest]], most: int) -> tuple[tuple[Destination, Manifest], ...]:
    """The newest `most` snapshots that have the same part of the same cluster as the newest, oldest first.

    Two of the same moment are one: the last by name. A cluster is told by the place that it was read from.
    """
    if not found:
        return ()
    wanted = found[-1][1]
    same = (each for each in found if is_of_same_part(each[1], wanted))
    return tuple({each[1].time_ms: each for each in same}.values())[-most:]


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
