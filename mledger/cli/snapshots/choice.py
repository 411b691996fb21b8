"""The snapshots that a command is about, of directories of snapshots, with warnings where others may be meant."""

from collections.abc import Sequence

from mledger.cli.shared.messages import messages
from mledger.cli.snapshots.damaged import warn_of_damaged
from mledger.metastore.runtime.times import utc_text, wall_clock_ms
from mledger.snapshot.exports.directory import find_snapshots
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.exports.selection import FoundSnapshot, is_ahead, is_of_same_part, plan_pair


def chosen_snapshot(path: str) -> FoundSnapshot:
    """The snapshot at a path; of a directory of snapshots the newest. SnapshotNotFound, InvalidManifest."""
    return chosen_pair(path, None)[0]


def chosen_pair(path: str, before: str | None) -> tuple[FoundSnapshot, FoundSnapshot | None]:
    """The snapshot at a path, and the one at `before` to compare it with; errors as of `chosen_snapshot`."""
    found = find_snapshots(path, warn_of_damaged)
    chosen, older = choose(found, [] if before is None else find_snapshots(before, warn_of_damaged))
    if older is None:
        _warn_of_others(path, chosen[1], [each for _, each in found])
    return chosen, older


def choose(
    found: Sequence[FoundSnapshot], before: Sequence[FoundSnapshot]
) -> tuple[FoundSnapshot, FoundSnapshot | None]:
    """What `plan_pair` chooses, with warnings of snapshots from the future, and of two of different clusters."""
    chosen, older = plan_pair(found, before, wall_clock_ms())
    warn_of_the_future([each for _, each in found], chosen[1])
    if older is not None:
        warn_of_the_future([each[1] for each in before if each not in found], older[1])
        if not is_of_same_part(chosen[1], older[1]):
            messages.warning(
                f"{older[1].name} is of {_part(older[1])}, {chosen[1].name} of {_part(chosen[1])}: what differs "
                "between them need not have changed"
            )
    return chosen, older


def warn_of_the_future(found: Sequence[Manifest], chosen: Manifest | None = None) -> None:
    """Name the snapshots from the future, except the one that was chosen."""
    now_ms = wall_clock_ms()
    for each in found:
        if each != chosen and is_ahead(each, now_ms):
            messages.warning(
                f"the snapshot {each.name} is left out: its time, {utc_text(each.time_ms)}, is ahead of this machine's "
                "clock; set the clock, or remove the snapshot if the clock of its export was wrong"
            )


def _warn_of_others(path: str, chosen: Manifest, found: Sequence[Manifest]) -> None:
    others = sum(not is_of_same_part(each, chosen) for each in found)
    if others:
        messages.warning(
            f"{path} also has snapshots of other clusters or other parts of one ({others}); this is {chosen.name}, of "
            f"{_part(chosen)}: to see another, name its directory"
        )


def _part(manifest: Manifest) -> str:
    origin = [f"{name} {value}" for name, value in manifest.request.options if name in ("logs", "chroot")]
    scope = [f"{name} {value}" for name, value in manifest.request.scope]
    return ", ".join([manifest.request.source, *origin, *scope])
