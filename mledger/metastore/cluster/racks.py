"""Racks of bookies: Pulsar's `/bookies`, JSON of group to bookie id to {rack, hostname} (formats.md).

A rack is a path: `/rack`, or `/region/rack` where there are regions; the leading slash is optional.
"""

import json
from collections.abc import Mapping

from mledger.metastore.errors import RecordError

RACKS_PATH = "/bookies"

RackGroups = Mapping[str, Mapping[str, str | None]]
"""For each group, the rack of each of its bookies as written, None for a bookie without one."""


def decode_racks(data: bytes, path: str = RACKS_PATH) -> RackGroups:
    """The groups in the node at `path`, which may be empty. RecordError."""
    if not data.strip():
        return {}
    try:
        groups = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the record of racks at {path} cannot be read: it is not JSON: {error}", path) from None
    if not isinstance(groups, dict) or not all(isinstance(group, dict) for group in groups.values()):
        raise RecordError(
            f"the record of racks at {path} cannot be read: it is not a JSON object of groups of bookies", path
        )
    return {name: {bookie: _rack(known) for bookie, known in group.items()} for name, group in groups.items()}


def _rack(known: object) -> str | None:
    rack = known.get("rack") if isinstance(known, dict) else None
    return rack if isinstance(rack, str) and rack else None
