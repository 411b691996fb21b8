"""Where bookies stand: Pulsar's `/bookies`, JSON of group to bookie id to {rack, hostname} (formats.md).

A rack is a path: `/rack`, or `/region/rack` where regions matter; the leading slash may be left out.
"""

import json
from collections.abc import Mapping

from mledger.metastore.errors import RecordError

RACKS_PATH = "/bookies"

RackGroups = Mapping[str, Mapping[str, str | None]]
"""By group the rack of each of its bookies as it is written, None for one without."""


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
