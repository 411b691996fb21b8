"""The tables `ledgers` and `ensembles`: BookKeeper's metadata of each ledger, and which bookies hold which entries.

No table has a ledger's password.
"""

from operator import attrgetter
from typing import Any, NamedTuple

from mledger.metastore.records.ledger_metadata import NOT_KEPT, DigestType, LedgerMetadata, LedgerState
from mledger.snapshot.tables.columns import INT, LONG, TEXT, TEXT_MAP, TEXTS, TIME, Column, Table
from mledger.snapshot.tables.decoder import CURSOR, MANAGED_LEDGER
from mledger.snapshot.tables.node_kinds import TopicKey
from mledger.snapshot.tables.records import Ledger
from mledger.snapshot.tables.topics import node_columns, znode_columns

_OWNER_DOC = "of the topic that its custom metadata names; null if it names none"


_CLOSED = LedgerState.CLOSED
# Looking up an enum's name takes several times as long.
_STATES = {state: state.name for state in LedgerState}
_DIGESTS: dict[DigestType | None, str | None] = {None: None, **{digest: digest.name for digest in DigestType}}


def _if_closed(row: Ledger) -> LedgerMetadata | None:
    return row.metadata if row.metadata.state is _CLOSED else None


def _bookies(row: Ledger) -> list[str]:
    """The distinct bookies of all ensembles, sorted."""
    segments = row.metadata.segments
    if len(segments) == 1:
        return sorted(set(segments[0].bookies))
    return sorted({bookie for segment in segments for bookie in segment.bookies})


def _owner_columns(*, shared: bool = False) -> tuple[Column[Any], ...]:
    owned = attrgetter("key")
    return (
        Column("tenant", TEXT, f"tenant {_OWNER_DOC}", attrgetter("key.tenant"), owned, shared),
        Column("namespace", TEXT, f"namespace {_OWNER_DOC}", attrgetter("key.namespace"), owned, shared),
        Column("topic", TEXT, f"name {_OWNER_DOC}", attrgetter("key.topic"), owned, shared),
    )


LEDGERS: Table[Ledger] = Table(
    "ledgers",
    "a ledger in BookKeeper",
    (
        Column("ledger_id", LONG, "the ledger", attrgetter("ledger_id")),
        *_owner_columns(),
        Column(
            "managed_ledger",
            TEXT,
            "the managed ledger that its custom metadata names",
            lambda row: row.custom.get(MANAGED_LEDGER),
        ),
        Column("cursor", TEXT, "the cursor, if it is a cursor ledger", lambda row: row.custom.get(CURSOR)),
        *node_columns(),
        Column("state", TEXT, "OPEN, IN_RECOVERY or CLOSED", lambda row: _STATES[row.metadata.state]),
        Column("ensemble_size", INT, "bookies in an ensemble", attrgetter("metadata.ensemble_size")),
        Column("write_quorum", INT, "copies of each entry", attrgetter("metadata.write_quorum")),
        Column("ack_quorum", INT, "copies that must be acknowledged", attrgetter("metadata.ack_quorum")),
        Column(
            "last_entry",
            LONG,
            "the last entry's id (-1: empty); null until it is closed",
            attrgetter("metadata.last_entry"),
            _if_closed,
        ),
        Column(
            "length",
            LONG,
            "payload bytes; null until it is closed",
            attrgetter("metadata.length"),
            _if_closed,
        ),
        Column(
            "digest_type",
            TEXT,
            "CRC32C, CRC32, HMAC, DUMMY; null if not recorded",
            lambda row: _DIGESTS[row.metadata.digest_type],
        ),
        Column(
            "ctime",
            TIME,
            "when it was created, as its metadata says; null if not recorded",
            lambda row: None if row.metadata.ctime == NOT_KEPT else row.metadata.ctime,
        ),
        Column("format_version", INT, "version of the metadata's format", attrgetter("metadata.format_version")),
        Column("ensembles", INT, "how many ensembles it has had", lambda row: len(row.metadata.segments)),
        Column("bookies", TEXTS, "the distinct bookies of all its ensembles, sorted", _bookies),
        Column("custom_metadata", TEXT_MAP, "its custom metadata, read as UTF-8", attrgetter("custom")),
        *znode_columns(versioned=True),
    ),
)


class Ensemble(NamedTuple):
    """The bookies of a ledger from entry `first` to `last`, which is None if the ledger is open."""

    ledger: Ledger
    key: TopicKey | None
    place: int
    first: int
    last: int | None


class Member(NamedTuple):
    """A bookie's place in an ensemble of a ledger."""

    ensemble: Ensemble
    place: int
    bookie_id: str


def members_of(ledger: Ledger) -> list[Member]:
    """The rows of `ensembles` of a ledger."""
    metadata = ledger.metadata
    segments, key = metadata.segments, ledger.key
    lasts: list[int | None] = [later.first_entry - 1 for later in segments[1:]]
    lasts.append(metadata.last_entry if metadata.state is _CLOSED else None)
    found = []
    for index, (first, bookies) in enumerate(segments):
        ensemble = Ensemble(ledger, key, index, first, lasts[index])
        found += [Member(ensemble, place, bookie_id) for place, bookie_id in enumerate(bookies)]
    return found


def entries_held(first: int, last: int, member: int, ensemble_size: int, write_quorum: int) -> int:
    """How many of the entries first..last the member of that index should hold (Q1)."""
    if write_quorum == ensemble_size:
        return max(0, last - first + 1)
    return sum(
        _count_congruent(first, last, (member - copy) % ensemble_size, ensemble_size) for copy in range(write_quorum)
    )


def _count_congruent(first: int, last: int, rest: int, modulus: int) -> int:
    if last < first:
        return 0
    return (last - rest) // modulus - (first - 1 - rest) // modulus


def _held(row: Member) -> int | None:
    (ledger, _, _, first, last), place, _ = row
    if last is None:
        return None
    metadata = ledger.metadata
    return entries_held(first, last, place, metadata.ensemble_size, metadata.write_quorum)


ENSEMBLES: Table[Member] = Table(
    "ensembles",
    "a bookie's place in an ensemble of a ledger",
    (
        Column("ledger_id", LONG, "the ledger", attrgetter("ledger.ledger_id"), shared=True),
        *_owner_columns(shared=True),
        Column("ensemble", INT, "which ensemble of the ledger, from 0", attrgetter("place"), shared=True),
        Column("first_entry", LONG, "the first entry of the ensemble", attrgetter("first"), shared=True),
        Column("last_entry", LONG, "the last one; null if the ledger is open", attrgetter("last"), shared=True),
        Column("member", INT, "the bookie's place in it, from 0", attrgetter("place")),
        Column("bookie_id", TEXT, "the bookie", attrgetter("bookie_id")),
        Column("entries", LONG, "entries of it that this bookie should hold; null if the ledger is open", _held),
        *znode_columns("ledger.node", shared=True),
    ),
    record_of=attrgetter("ensemble"),
)
