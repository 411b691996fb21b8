"""What pulsar-admin prints, without what differs between any two clusters. Each rule has its reason."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple


class TextRule(NamedTuple):
    """What to replace in text, and why."""

    why: str
    pattern: str
    replacement: str


class FieldRule(NamedTuple):
    """What to change in an object of JSON, and why."""

    why: str
    change: Callable[[dict[str, Any]], None]


TEXT_RULES = (
    TextRule("each cluster has its metadata store", r"zk:(//)?[^\s\"]+", "STORE"),
    TextRule("each broker and bookie has its address", r"((pulsar|http)://)?127\.0\.0\.1:\d{4,5}\b", "ADDRESS"),
    TextRule("clocks go on: milliseconds since 1970", r"\b1[789]\d{11}\b", "TIME"),
    TextRule("clocks go on: ISO 8601", r"\b20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME"),
    TextRule(
        "each cluster numbers its ledgers", r'("ledgerId" : |Message ID: |terminated at |")\d+(?=[,:])', r"\1LEDGER"
    ),
)
ACTIONS = r"(?<=\[)[a-z]+(, [a-z]+)+(?=\])"
"""The set of actions that a role is permitted."""


def _open_ledger_has_no_counts(found: dict[str, Any]) -> None:
    if "ledgers" in found and "currentLedgerEntries" in found:
        for name in ("entries", "size"):
            found["ledgers"][-1].pop(name)


def _cursor_is_stored_elsewhere(found: dict[str, Any]) -> None:
    if "cursorLedger" in found:
        for name in ("cursorLedger", "cursorLedgerLastEntry", "lastLedgerSwitchTimestamp", "state"):
            found.pop(name, None)


def _read_position_before_the_first_entry(found: dict[str, Any]) -> None:
    if str(found.get("readPosition", "")).endswith(":-1"):
        found["readPosition"] = found["readPosition"].replace(":-1", ":0")
        found["numberOfEntriesSinceFirstNotAckedMessage"] += 1


def _not_kept(found: dict[str, Any]) -> None:
    for name in ("schemaLedgers", "compactedLedger"):
        found.pop(name, None)


FIELD_RULES = (
    FieldRule("Pulsar counts in a ledger once it is closed, ours at once", _open_ledger_has_no_counts),
    FieldRule("ours gives a cursor a ledger when it needs one, Pulsar at once", _cursor_is_stored_elsewhere),
    FieldRule("Pulsar moves a cursor to the first entry with its first read", _read_position_before_the_first_entry),
    FieldRule("ours leaves these ledgers out", _not_kept),
)


def without_chance(text: str) -> Any:
    """What a command printed as JSON, or as its lines in order, without what the rules name."""
    try:
        content = json.loads(text, object_hook=_changed)
    except ValueError:
        pass
    else:
        text = json.dumps(content, separators=(", ", " : "), sort_keys=True)
    for rule in TEXT_RULES:
        text = re.sub(rule.pattern, rule.replacement, text)
    text = re.sub(ACTIONS, lambda found: ", ".join(sorted(found[0].split(", "))), text)
    return sorted(text.splitlines())  # of sets, Java prints the members in any order


def _changed(found: dict[str, Any]) -> dict[str, Any]:
    for rule in FIELD_RULES:
        rule.change(found)
    return found
