"""Groups of bookies that ledgers are placed on: a namespace's `bookieAffinityGroup`, and what a ledger keeps of it.

A namespace names the groups in its local policies (JSON). Each ledger placed by them has them in its custom metadata,
in the JSON of Pulsar's EnsemblePlacementPolicyConfig, to the byte: whoever replaces one of its bookies keeps to them.
Names are separated by commas and taken as they are, spaces too, as Java takes them.
"""

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from mledger.metastore.errors import RecordError

AFFINITY_POLICY = "bookieAffinityGroup"
"""The field of local policies."""
PRIMARY_FIELD, SECONDARY_FIELD = "bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary"
"""The fields of that object."""
PLACEMENT_KEY = "EnsemblePlacementPolicyConfig"
"""The key of a ledger's custom metadata."""
ISOLATED_PLACEMENT = "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy"
_PRIMARY, _SECONDARY = "isolationBookieGroups", "secondaryIsolationBookieGroups"


class BookieAffinityGroup(Struct, frozen=True):
    """Names of groups, separated by commas, as they are written; None where nothing is."""

    primary: str | None = None
    secondary: str | None = None

    def __str__(self) -> str:
        """The groups in words."""
        return f"{self.primary or 'none'}, secondary {self.secondary or 'none'}"

    @property
    def primary_groups(self) -> frozenset[str]:
        """The groups that ledgers are placed on."""
        return _names(self.primary)

    @property
    def secondary_groups(self) -> frozenset[str]:
        """The groups that are used too where those have fewer bookies than an ensemble."""
        return _names(self.secondary)


UNGROUPED = BookieAffinityGroup("", "")
"""Bookies in no group: what `strictBookieAffinityEnabled` leaves to namespaces that name no groups."""
ANY_BOOKIES = BookieAffinityGroup("*", "*")
"""Every bookie, whatever its group: what it leaves to system topics."""


def decode_affinity(data: bytes, path: str) -> BookieAffinityGroup | None:
    """The groups in the local policies at `path`; None if they name none. RecordError."""
    if not data:
        return None
    try:
        found = json.loads(data)
        group = found.get(AFFINITY_POLICY)
        return (
            None
            if group is None
            else BookieAffinityGroup(_text(group.get(PRIMARY_FIELD)), _text(group.get(SECONDARY_FIELD)))
        )
    except (ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"the local policies at {path} cannot be read: {error}", path) from None


def placement_metadata(group: BookieAffinityGroup) -> tuple[str, bytes]:
    """The custom metadata of a ledger that is placed by `group`: Jackson's bytes, with Java's order of the fields."""
    named = {_PRIMARY: group.primary, _SECONDARY: group.secondary}
    properties = {key: value for key, value in named.items() if value is not None}
    text = json.dumps(
        {"policyClass": ISOLATED_PLACEMENT, "properties": properties},
        indent=2,
        separators=(",", " : "),
        ensure_ascii=False,
    )
    return PLACEMENT_KEY, (text if properties else text.replace("{}", "{ }")).encode()


def ledger_affinity(custom_metadata: Iterable[tuple[str, bytes]]) -> BookieAffinityGroup | None:
    """The groups that a ledger's custom metadata asks for; None if it asks for none, or in no form that Java reads."""
    data = next((value for key, value in custom_metadata if key == PLACEMENT_KEY), None)
    if data is None:
        return None
    try:
        found = json.loads(data)
        if found.get("policyClass") != ISOLATED_PLACEMENT:
            return None
        properties = found.get("properties") or {}
        return BookieAffinityGroup(_text(properties.get(_PRIMARY)), _text(properties.get(_SECONDARY)))
    except (ValueError, AttributeError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    """A text, or a list of texts as one; ValueError."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"groups of bookies are {value!r}, not a text")


def _names(text: str | None) -> frozenset[str]:
    return frozenset(name for name in (text or "").split(",") if name)
