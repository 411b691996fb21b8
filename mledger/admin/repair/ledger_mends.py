"""Finds faults in a topic's list of ledgers and decides how to repair it; over plain values, no I/O.

- A ledger of the list that does not exist is dropped: its entries are lost already (opening does so only for the last
  ledger, M3). One with a complete copy in tiered storage stays: the list is all that leads to the copy. An empty closed
  ledger before the last is dropped and deleted.
- A closed ledger gets the entries and size of its metadata. A ledger before the last that was never closed is recovered
  first (Q4). The last ledger is left to the next opening if its owner did not close it.
- A ledger that would lose entries which the list says were acknowledged is left: one that is not closed and of which
  its bookies show less (others may be away, or began anew), and one that was closed as empty.
- A ledger that the list has lost (`unlisted_ledgers`) stays. If that is asked for, it is listed again where its id
  says; those of a topic are listed again together, or none of them.
"""

import dataclasses
import enum
from collections.abc import Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.admin.references.ledger_facts import LedgerFacts
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.offload import is_offloaded
from mledger.ledgers.orphans.references import references_in_topic
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo

MISSING = (
    "it has entries, and the list has lost it: it stays; `topics repair --relist` lists it again, `ledgers read` reads "
    "it, `ledgers delete --force` gives it up"
)
TOPIC_GONE = (
    "it has entries, and its topic does not exist: it stays; restore the topic's record from a backup, or give the "
    "ledger up by `topics repair --gone-topics`"
)
LISTED_AGAIN = "it has entries, and the list has lost it: it is listed again"
PASSED = (
    f"{LISTED_AGAIN}; all cursors are past it: the topic's next owner deletes it unless retention keeps it, so set "
    "that before, or `cursors reset` one to it before a broker opens the topic"
)
"""What is done about a ledger that was in a list."""


class Wrong(enum.Enum):
    """The kinds of faults."""

    LEDGER_LOST = "ledger is lost"
    LEDGER_EMPTY = "ledger is empty"
    LEDGER_NOT_CLOSED = "ledger is not closed"
    COUNTS = "entries or size are wrong"
    CURSOR_LEDGER_LOST = "cursor ledger is lost"
    STATE_UNREADABLE = "cursor's last state cannot be read"
    POSITION = "state does not fit the ledgers"
    ORPHAN = "ledger is an orphan"
    RECORD = "record is left over"
    UNREADABLE = "cannot be read"
    UNLISTED = "ledger is not in the list"


class Mend(Struct, frozen=True):
    """One fault, its ledger or cursor, and how it is repaired; if `mended` is False it is left as it is."""

    wrong: Wrong
    ledger_id: int | None
    cursor: str
    text: str
    mended: bool = True

    def left(self) -> "Mend":
        """This one, which waits until it is known which ledgers the topic has."""
        return replace(self, text=f"{self.text}, once no ledger is missing from the list", mended=False)


class LedgerMends(Struct):
    """The repaired list, once as it is written and once with the known ends."""

    ledgers: list[LedgerInfo] = field(default_factory=list)
    with_ends: list[LedgerInfo] = field(default_factory=list)
    recover: list[tuple[int, LedgerEnd]] = field(default_factory=list)
    delete: list[int] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    mends: list[Mend] = field(default_factory=list)

    def keep(self, ledger: LedgerInfo, with_end: LedgerInfo | None = None) -> None:
        """Keep a ledger as it is to be written, and with its known end if that is another one."""
        self.ledgers.append(ledger)
        self.with_ends.append(with_end or ledger)

    def note(self, wrong: Wrong, ledger_id: int, text: str, *, mended: bool = True) -> None:
        """Note a fault of a ledger."""
        self.mends.append(Mend(wrong, ledger_id, "", text, mended))

    def left(self, info: ManagedLedgerInfo) -> "LedgerMends":
        """The list of `info` as it is, with the faults that were found."""
        return replace(
            self, ledgers=list(info.ledgers), recover=[], delete=[], mends=[each.left() for each in self.mends]
        )


def mend_list(info: ManagedLedgerInfo, ledgers: Mapping[int, LedgerFacts | None], now_ms: int) -> LedgerMends:
    """How the list of `info` is repaired; `now_ms` becomes the close time of ledgers without one."""
    listing = LedgerMends()
    may_be_gone = {each.ledger_id for each in references_in_topic("", info) if each.may_be_gone}
    for ledger in info.ledgers:
        if ledger.ledger_id in may_be_gone:
            listing.keep(ledger)
            continue
        facts = ledgers[ledger.ledger_id]
        is_last = ledger is info.ledgers[-1]
        if facts is None and is_offloaded(ledger):
            listing.keep(ledger)
            text = f"it does not exist, {ledger.entries:,} entries are in tiered storage only: stays in the list"
            listing.note(Wrong.LEDGER_LOST, ledger.ledger_id, text, mended=False)
        elif facts is None:
            listing.lost.add(ledger.ledger_id)
            entries = f"{ledger.entries:,} entries" if ledger.entries else "its entries"
            listing.note(
                Wrong.LEDGER_LOST, ledger.ledger_id, f"it does not exist, {entries} are lost: dropped from the list"
            )
        elif is_last and ledger.timestamp == 0:
            listing.keep(ledger, dataclasses.replace(ledger, entries=facts.end.entries, size=facts.end.size))
        else:
            _mend_closed(listing, ledger, facts, is_last, now_ms)
    return listing


def list_again(
    info: ManagedLedgerInfo, unlisted: Collection[int], ledgers: Mapping[int, LedgerFacts | None], now_ms: int
) -> ManagedLedgerInfo | None:
    """`info` with the ledgers `unlisted`; None if one cannot be read now, or is past the topic's end."""
    added: list[LedgerInfo] = []
    for ledger_id in unlisted:
        facts = ledgers.get(ledger_id)
        if facts is None or (info.terminated is not None and ledger_id > info.terminated.ledger_id):
            return None
        if facts.state is LedgerState.CLOSED:
            added.append(LedgerInfo(ledger_id, facts.end.entries, facts.end.size, now_ms))
        else:
            added.append(LedgerInfo(ledger_id))
    return replace(info, ledgers=tuple(sorted((*info.ledgers, *added), key=lambda each: each.ledger_id)))


def _mend_closed(listing: LedgerMends, ledger: LedgerInfo, facts: LedgerFacts, is_last: bool, now_ms: int) -> None:
    """Repair a ledger that its owner has closed, or should have closed."""
    ledger_id, end = ledger.ledger_id, facts.end
    if end.entries < ledger.entries and (end.entries == 0 or facts.state is not LedgerState.CLOSED):
        listing.keep(ledger)
        text = (
            f"recorded {ledger.entries:,} entries, and {end.entries:,} are found: it stays; start the bookies that "
            "have the others, or give it up by `topics drop-ledgers`"
        )
        listing.note(Wrong.COUNTS, ledger_id, text, mended=False)
        return
    if facts.state is not LedgerState.CLOSED:
        listing.recover.append((ledger_id, end))
        listing.note(Wrong.LEDGER_NOT_CLOSED, ledger_id, f"recovered, with {end.entries:,} entries found so far")
    if end.entries == 0 and not is_last:
        listing.delete.append(ledger_id)
        listing.note(Wrong.LEDGER_EMPTY, ledger_id, "it has no entry and is not the last: dropped and deleted")
        return
    mended = dataclasses.replace(ledger, entries=end.entries, size=end.size, timestamp=ledger.timestamp or now_ms)
    if (ledger.entries, ledger.size) != (end.entries, end.size):
        listing.note(
            Wrong.COUNTS,
            ledger_id,
            f"recorded {ledger.entries:,} entries and {ledger.size:,} bytes: set to {end.entries:,} and {end.size:,}",
        )
    listing.keep(mended)
