"""The tables `ledgers` and `ensembles`: BookKeeper's metadata of each ledger, and which bookies hold which entries.

A ledger's password is in no table.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from metastore.ledger_metadata import NOT_KEPT, LedgerMetadata, LedgerState
from snapshot.decoding import CURSOR, MANAGED_LEDGER
from snapshot.found import Ledger
from snapshot.places import TopicKey
from snapshot.tables.columns import INT, LONG, TEXT, TEXT_MAP, TEXTS, TIME, Column, Table
from snapshot.tables.topics import node_columns

_OWNER_DOC = "of the topic that its custom metadata names; null where it names none"


def _closed(metadata: LedgerMetadata) -> bool:
    return metadata.state is LedgerState.CLOSED


def _digest(row: Ledger) -> str | None:
    digest = row.metadata.digest_type
    return None if digest is None else digest.name


def _bookies(row: Ledger) -> list[str]:
    """All bookies of all ensembles, each once, sorted."""
    return sorted({bookie for segment in row.metadata.segments for bookie in segment.bookies})


LEDGERS: Table[Ledger] = Table(
    "ledgers",
    "a ledger in BookKeeper",
    (
        Column("ledger_id", LONG, "the ledger", attrgetter("ledger_id")),
        Column("tenant", TEXT, f"tenant {_OWNER_DOC}", lambda row: row.key and row.key.tenant),
        Column("namespace", TEXT, f"namespace {_OWNER_DOC}", lambda row: row.key and row.key.namespace),
        Column("topic", TEXT, f"name {_OWNER_DOC}", lambda row: row.key and row.key.topic),
        Column(
            "managed_ledger",
            TEXT,
            "the managed ledger that its custom metadata names",
            lambda row: row.custom.get(MANAGED_LEDGER),
        ),
        Column("cursor", TEXT, "the cursor, if it is a cursor ledger", lambda row: row.custom.get(CURSOR)),
        *node_columns(),
        Column("state", TEXT, "OPEN, IN_RECOVERY or CLOSED", attrgetter("metadata.state.name")),
        Column("ensemble_size", INT, "bookies at a time", attrgetter("metadata.ensemble_size")),
        Column("write_quorum", INT, "copies of each entry", attrgetter("metadata.write_quorum")),
        Column("ack_quorum", INT, "copies that acknowledge an entry", attrgetter("metadata.ack_quorum")),
        Column(
            "last_entry",
            LONG,
            "the last entry's id (-1: empty); null until it is closed",
            lambda row: row.metadata.last_entry if _closed(row.metadata) else None,
        ),
        Column(
            "length",
            LONG,
            "payload bytes; null until it is closed",
            lambda row: row.metadata.length if _closed(row.metadata) else None,
        ),
        Column("digest_type", TEXT, "CRC32C, CRC32, HMAC, DUMMY; null where the record does not say", _digest),
        Column(
            "ctime",
            TIME,
            "when it was created, as its metadata says; null where it does not",
            lambda row: None if row.metadata.ctime == NOT_KEPT else row.metadata.ctime,
        ),
        Column("format_version", INT, "version of the metadata's format", attrgetter("metadata.format_version")),
        Column("ensembles", INT, "how many ensembles it has had", lambda row: len(row.metadata.segments)),
        Column("bookies", TEXTS, "all bookies of all its ensembles, each once, sorted", _bookies),
        Column("custom_metadata", TEXT_MAP, "its custom metadata, read as UTF-8", lambda row: list(row.custom.items())),
    ),
)


class Member(NamedTuple):
    """A bookie's place in an ensemble of a ledger."""

    ledger: Ledger
    key: TopicKey | None
    segment: int
    first: int
    last: int | None
    member: int
    bookie_id: str


def members_of(ledger: Ledger) -> Iterator[Member]:
    """The rows of `ensembles` that a ledger has."""
    metadata = ledger.metadata
    for index, segment in enumerate(metadata.segments):
        if index + 1 < len(metadata.segments):
            last: int | None = metadata.segments[index + 1].first_entry - 1
        else:
            last = metadata.last_entry if _closed(metadata) else None
        for member, bookie_id in enumerate(segment.bookies):
            yield Member(ledger, ledger.key, index, segment.first_entry, last, member, bookie_id)


def entries_held(first: int, last: int, member: int, ensemble_size: int, write_quorum: int) -> int:
    """How many of the entries first..last the member of that index is to hold (Q1)."""
    return sum(
        _count_congruent(first, last, (member - copy) % ensemble_size, ensemble_size) for copy in range(write_quorum)
    )


def _count_congruent(first: int, last: int, rest: int, modulus: int) -> int:
    if last < first:
        return 0
    return (last - rest) // modulus - (first - 1 - rest) // modulus


def _held(row: Member) -> int | None:
    if row.last is None:
        return None
    metadata = row.ledger.metadata
    return entries_held(row.first, row.last, row.member, metadata.ensemble_size, metadata.write_quorum)


ENSEMBLES: Table[Member] = Table(
    "ensembles",
    "a bookie's place in an ensemble of a ledger",
    (
        Column("ledger_id", LONG, "the ledger", attrgetter("ledger.ledger_id")),
        Column("tenant", TEXT, f"tenant {_OWNER_DOC}", lambda row: row.key and row.key.tenant),
        Column("namespace", TEXT, f"namespace {_OWNER_DOC}", lambda row: row.key and row.key.namespace),
        Column("topic", TEXT, f"name {_OWNER_DOC}", lambda row: row.key and row.key.topic),
        Column("ensemble", INT, "which ensemble of the ledger, from 0", attrgetter("segment")),
        Column("first_entry", LONG, "the first entry that it is in force for", attrgetter("first")),
        Column("last_entry", LONG, "the last one; null where the ledger is open", attrgetter("last")),
        Column("member", INT, "the bookie's place in it, from 0", attrgetter("member")),
        Column("bookie_id", TEXT, "the bookie", attrgetter("bookie_id")),
        Column("entries", LONG, "entries of it that this bookie is to hold; null where the ledger is open", _held),
    ),
)
