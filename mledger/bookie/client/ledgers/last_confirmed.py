"""Asks an ensemble for the end of a ledger: last entries, and one entry from its write set (Q3, Q4).

With flags and master key, the reads fence the ledger and use connections of their own. Without, they change nothing.
"""

import asyncio

from msgspec import Struct, field

from mledger.bookie.client.connections.frames import StoredEntry, open_entry
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.speculation import SpeculativeRead
from mledger.bookie.client.plans.recovery import (
    NOTHING_TOLD,
    Finding,
    RecoveryRead,
    Reported,
    answer_of,
    covered,
    plan_finding,
)
from mledger.bookie.client.plans.refusals import UNAUTHORIZED, read_refusal
from mledger.bookie.client.plans.write_sets import write_set
from mledger.bookie.digest import Digest
from mledger.bookie.errors import BookieUnavailable, Code, Unauthorized
from mledger.bookie.wire import LAST_ENTRY
from mledger.metastore.records.ledger_metadata import NO_ENTRY, LedgerMetadata


class Ends(Struct):
    """The last entries that an ensemble's members report; one answer per index, None while it is awaited."""

    answers: list[RecoveryRead | None]
    reports: list[Reported] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """Indexes of members that answered with an error, so that they may be fenced or not."""

    @property
    def last_add_confirmed(self) -> int:
        """The highest last-add-confirmed that an entry carried; -1 if none did."""
        return max((report.last_add_confirmed for report in self.reports), default=NO_ENTRY)


class EndReader:
    """Reads the end of one ledger from its bookies, fencing or not."""

    def __init__(
        self, ledger_id: int, digest: Digest, pool: BookiePool, lane: Lane, flags: int = 0, key: bytes = b""
    ) -> None:
        self.ledger_id = ledger_id
        self._digest, self._pool, self._lane, self._flags, self._key = digest, pool, lane, flags, key

    async def ends(self, metadata: LedgerMetadata, flags: int, *, wait_for_all: bool) -> Ends:
        """Ask every member of the last ensemble for its last entry.

        Returns as soon as the members left cannot form an ack quorum. With `wait_for_all`, it then waits for them as
        long as a speculative read does (Q11). Until then, it waits for every member's answer or time-out.
        """
        ensemble = metadata.ensemble
        found = Ends([None] * len(ensemble))
        asked = {self._ask(bookie, LAST_ENTRY, flags): index for index, bookie in enumerate(ensemble)}
        waiting, patience_s = set(asked), None
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                for answer in done:
                    self._note(found, asked[answer], ensemble[asked[answer]], answer)
                if covered(found.answers, metadata.write_quorum, metadata.ack_quorum):
                    if not wait_for_all or not done:
                        break
                    patience_s = self._pool.speculative_read_s
            if wait_for_all:
                for answer in waiting:
                    self._note_late(found, asked[answer], ensemble[asked[answer]])
        finally:
            for answer in asked:
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # mark it retrieved: nobody else does
        return found

    async def fence_refused(self, metadata: LedgerMetadata, found: Ends) -> None:
        """Fence members that could not give their last entry, by a read behind all entries that were reported.

        A bookie of which the last entry cannot be read answers that read, and is fenced by then.
        """
        behind = max((report.entry for report in found.reports), default=NO_ENTRY) + 1
        refused = sorted(found.refused)
        reads = (self._ask(metadata.ensemble[index], behind, self._flags) for index in refused)
        for index, answer in zip(refused, await asyncio.gather(*reads, return_exceptions=True), strict=True):
            if isinstance(answer, BookieUnavailable):
                found.troubles.append(str(answer))
            elif isinstance(answer, BaseException):
                raise answer
            elif answer_of(answer[0]) is not RecoveryRead.UNKNOWN:
                found.answers[index] = RecoveryRead.DAMAGED

    async def known_ends(self, metadata: LedgerMetadata) -> Ends:
        """Ask every member as `ends` does, without flags. BookieUnavailable if none answers."""
        ends = await self.ends(metadata, 0, wait_for_all=True)
        if all(answer in NOTHING_TOLD for answer in ends.answers):
            raise BookieUnavailable(
                f"ledger {self.ledger_id}: its end is not known, no bookie of {', '.join(metadata.ensemble)} answers: "
                f"{troubles_text(ends.troubles)}"
            )
        return ends

    def _note_late(self, found: Ends, index: int, bookie: str) -> None:
        what = f"bookie {bookie}: it has not said where the ledger ends; the others' answers suffice"
        self._pool.quarantine.note_failure(bookie, what)
        self._note_error(found, index, BookieUnavailable(what))

    async def entry(self, metadata: LedgerMetadata, entry: int) -> tuple[Finding, StoredEntry | None, list[str]]:
        """Ask the write set of `entry` one by one until it is found or provably missing; also what went wrong."""
        bookies = metadata.segment_at(entry).bookies
        answers: list[RecoveryRead] = []
        troubles: list[str] = []
        members = [bookies[index] for index in write_set(entry, len(bookies), metadata.write_quorum)]
        asking = SpeculativeRead(
            self._pool.quarantine.healthy_first(members),
            lambda bookie: self._ask(bookie, entry, self._flags),
            self._pool.speculative_read_s,
            self._slow,
        )
        try:
            while (answered := await asking.next()) is not None:
                bookie, answer = answered
                try:
                    code, stored = answer.result()
                except BookieUnavailable as error:
                    self._pool.quarantine.note_failure(bookie, str(error))
                    answers.append(RecoveryRead.UNKNOWN)
                    troubles.append(str(error))
                else:
                    if code == Code.UNAUTHORIZED:
                        raise self._unauthorized(bookie)
                    opened = self._open(bookie, entry, code, stored, troubles)
                    if opened is not None:
                        return Finding.FOUND, opened, troubles
                    answers.append(RecoveryRead.DAMAGED if code == Code.OK else answer_of(code))
                finding = plan_finding(answers, metadata.write_quorum, metadata.ack_quorum)
                if finding is not Finding.ASK_ON:
                    return finding, None, troubles
        finally:
            asking.close()
        return Finding.UNDECIDED, None, troubles

    def _ask(self, bookie: str, entry: int, flags: int) -> asyncio.Future[tuple[int, bytes]]:
        connection = self._pool.opened(bookie, self._lane)
        if connection is not None:
            return connection.read(self.ledger_id, entry, flags, self._key)
        return asyncio.ensure_future(self._connect_and_ask(bookie, entry, flags))

    async def _connect_and_ask(self, bookie: str, entry: int, flags: int) -> tuple[int, bytes]:
        connection = await self._pool.connection(bookie, self._lane)
        return await connection.read(self.ledger_id, entry, flags, self._key)

    def _slow(self, bookie: str, waited_s: float) -> None:
        self._pool.quarantine.note_failure(bookie, f"no answer to a read within {waited_s:g} s; asked another")

    def _note(self, found: Ends, index: int, bookie: str, answer: asyncio.Future[tuple[int, bytes]]) -> None:
        error = answer.exception()
        if isinstance(error, BookieUnavailable):
            self._note_error(found, index, error)
            return
        code, stored = answer.result()
        if code == Code.UNAUTHORIZED:
            raise self._unauthorized(bookie)
        found.answers[index] = answer_of(code)
        if code == Code.OK:
            opened = self._open(bookie, None, code, stored, found.troubles)
            if opened is None:
                found.answers[index] = RecoveryRead.DAMAGED
            else:
                found.reports.append(Reported(opened.entry, opened.last_add_confirmed, opened.length))
        elif found.answers[index] is RecoveryRead.UNKNOWN:
            found.troubles.append(read_refusal(bookie, code, "the last entry"))
            found.refused.add(index)

    def _note_error(self, found: Ends, index: int, error: BookieUnavailable) -> None:
        found.answers[index] = RecoveryRead.UNKNOWN
        found.troubles.append(str(error))

    def _unauthorized(self, bookie: str) -> Unauthorized:
        return Unauthorized(f"ledger {self.ledger_id}, bookie {bookie}: {UNAUTHORIZED}")

    def _open(
        self, bookie: str, entry: int | None, code: int, stored: bytes, troubles: list[str]
    ) -> StoredEntry | None:
        if code != Code.OK:
            if answer_of(code) is RecoveryRead.UNKNOWN:
                troubles.append(read_refusal(bookie, code, "its last entry" if entry is None else f"entry {entry}"))
            return None
        opened = open_entry(stored, self.ledger_id, entry, self._digest)
        if opened is None:
            what = "its last entry" if entry is None else f"entry {entry}"
            troubles.append(f"bookie {bookie}: {what} of ledger {self.ledger_id} fails its digest")
        return opened


def troubles_text(troubles: list[str]) -> str:
    """What went wrong, for an error message."""
    return "; ".join(troubles) or "no bookie of it answered"
