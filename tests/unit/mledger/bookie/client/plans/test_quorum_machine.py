"""One ledger, its writer, two recoveries and six bookies, in every order that hypothesis finds (Q1, Q2, Q4, Q5, M5).

The bookies and the metadata are a model. The decisions are the product's: `WriteQuorum` and the recovery plans.
Messages arrive in any order, bookies crash and return, and the metadata update of a change may be late.
"""

from dataclasses import dataclass, field

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mledger.bookie.client.plans.placement import replace_members, with_ensemble
from mledger.bookie.client.plans.quorum import EnsembleChange, WriteQuorum
from mledger.bookie.client.plans.recovery import (
    Finding,
    RecoveryRead,
    Reported,
    covered,
    first_entry_to_read,
    plan_closed,
    plan_finding,
    plan_in_recovery,
)
from mledger.bookie.client.plans.write_sets import entries_of, write_set
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment

BOOKIES = tuple(f"b{number}" for number in range(6))


@dataclass
class ModelBookie:
    alive: bool = True
    fenced: bool = False
    stored: dict[int, int] = field(default_factory=dict)  # entry → the last-add-confirmed in it


@dataclass
class Recovery:
    metadata: LedgerMetadata
    version: int
    answers: dict[int, RecoveryRead] = field(default_factory=dict)
    reports: list[Reported] = field(default_factory=list)
    entry: int | None = None
    written: int = -1
    segments: tuple[Segment, ...] | None = None


class LedgerMachine(RuleBasedStateMachine):
    @initialize(data=st.data())
    def create(self, data):
        self.ensemble_size = data.draw(st.integers(1, 4), "E")
        self.write_quorum = data.draw(st.integers(1, self.ensemble_size), "Wq")
        self.ack_quorum = data.draw(st.integers(1, self.write_quorum), "Aq")
        ensemble = tuple(data.draw(st.permutations(BOOKIES), "ensemble")[: self.ensemble_size])
        self.metadata = LedgerMetadata(self.ensemble_size, self.write_quorum, self.ack_quorum, (Segment(0, ensemble),))
        self.version = 0
        self.bookies = {name: ModelBookie() for name in BOOKIES}
        self.quorum = WriteQuorum(self.ensemble_size, self.write_quorum, self.ack_quorum)
        self.held, self.held_version = self.metadata, 0
        self.ensemble = ensemble
        self.writing = True
        self.found: dict[int, str] = {}
        self.change: EnsembleChange | None = None
        self.acknowledged = 0
        self.messages: list[tuple[str, str, int, int]] = []
        self.lac_of: dict[int, int] = {}
        self.recoveries: list[Recovery] = []
        self.ends: list[int] = []
        self.append(3)

    # The writer

    def send(self, index, entries):
        self.messages += [("add", self.ensemble[index], entry, self.lac_of[entry]) for entry in entries]

    @precondition(lambda self: self.writing)
    @rule(count=st.integers(1, 4))
    def append(self, count):
        assume(self.quorum.next_entry < 30)
        first = self.quorum.sent(count)
        for entry in range(first, first + count):
            self.lac_of[entry] = self.quorum.acknowledged_below - 1
        for index in range(self.ensemble_size):
            if index not in self.quorum.down:
                self.send(index, entries_of(index, first, first + count - 1, self.ensemble_size, self.write_quorum))

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), count=st.integers(1, 24))
    def deliver(self, data, count):
        for _ in range(min(count, 2 * len(self.messages))):
            if not self.messages:
                break
            kind, name, entry, lac = self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1), "message"))
            bookie = self.bookies[name]
            if kind == "add" and bookie.alive:
                if bookie.fenced:
                    self.messages.append(("fenced", name, entry, lac))
                else:
                    bookie.stored.setdefault(entry, lac)
                    self.messages.append(("ack", name, entry, lac))
            elif kind == "ack" and self.writing and name in self.ensemble:
                self.take(self.quorum.acknowledged(self.ensemble.index(name), [entry]))
            elif kind == "fenced" and name in self.ensemble:
                self.writing = False

    def take(self, below):
        assert below >= self.acknowledged
        self.acknowledged = below

    @precondition(lambda self: self.writing)
    @rule(index=st.integers(0, 3))
    def notice_failure(self, index):
        assume(index < self.ensemble_size)
        self.quorum.failed([index])

    @precondition(lambda self: self.writing and self.quorum.down and self.change is None)
    @rule(data=st.data())
    def begin_change(self, data):
        indexes = data.draw(st.sets(st.sampled_from(sorted(self.quorum.down)), min_size=1), "indexes")
        others = [name for name in BOOKIES if name not in self.ensemble and self.bookies[name].alive]
        self.found = dict(zip(sorted(indexes), data.draw(st.permutations(others), "bookies"), strict=False))
        assume(self.found)
        self.change = self.quorum.begin_change(self.found.keys())

    @precondition(lambda self: self.writing and self.change is not None)
    @rule()
    def metadata_answers_the_change(self):
        if self.version != self.held_version:
            self.writing = False  # fenced by the metadata
            return
        self.ensemble = replace_members(self.ensemble, self.found)
        self.held = self.metadata = with_ensemble(self.held, self.change.first_entry, self.ensemble)
        self.version = self.held_version = self.version + 1
        self.change, resends = None, self.quorum.changed()
        self.take(self.quorum.acknowledged_below)
        for resend in resends:
            mine = entries_of(
                resend.index, resend.first_entry, resend.last_entry, self.ensemble_size, self.write_quorum
            )
            self.send(resend.index, mine)

    # Bookies

    @rule(data=st.data())
    def crash(self, data):
        name = data.draw(st.sampled_from(self.ensemble + self.metadata.ensemble), "bookie")
        self.bookies[name].alive = False
        self.messages = [message for message in self.messages if message[1] != name]

    @rule(name=st.sampled_from(BOOKIES))
    def come_back(self, name):
        self.bookies[name].alive = True

    # Recoveries

    @precondition(lambda self: len(self.recoveries) < 2 and self.metadata.state is not LedgerState.CLOSED)
    @rule()
    def begin_recovery(self):
        marked = plan_in_recovery(self.metadata)
        if marked is not None:
            self.metadata, self.version = marked, self.version + 1
        self.recoveries.append(Recovery(self.metadata, self.version))

    @precondition(lambda self: any(recovery.entry is None for recovery in self.recoveries))
    @rule(data=st.data())
    def fence_some(self, data):
        recovery = data.draw(st.sampled_from([each for each in self.recoveries if each.entry is None]), "recovery")
        for index in data.draw(st.permutations(range(self.ensemble_size)), "indexes"):
            if recovery.entry is None:
                self.fence(recovery, index)

    def fence(self, recovery, index):
        bookie = self.bookies[recovery.metadata.ensemble[index]]
        if not bookie.alive:
            recovery.answers[index] = RecoveryRead.UNKNOWN
            return
        bookie.fenced = True
        recovery.answers[index] = RecoveryRead.FOUND if bookie.stored else RecoveryRead.MISSING
        if bookie.stored:
            last = max(bookie.stored)
            recovery.reports.append(Reported(last, bookie.stored[last]))
        answers = [recovery.answers.get(number) for number in range(self.ensemble_size)]
        if covered(answers, self.write_quorum, self.ack_quorum):
            lac = max((report.last_add_confirmed for report in recovery.reports), default=-1)
            recovery.entry = first_entry_to_read(lac, recovery.metadata)
            recovery.written = recovery.entry - 1

    @precondition(lambda self: any(recovery.entry is not None for recovery in self.recoveries))
    @rule(data=st.data(), entries=st.integers(1, 6))
    def recover_entries(self, data, entries):
        reading = [each for each in self.recoveries if each.entry is not None]
        recovery = data.draw(st.sampled_from(reading), "recovery")
        for _ in range(entries):
            if recovery in self.recoveries:
                self.recover_one(recovery, data)

    def recover_one(self, recovery, data):
        finding = self.find(recovery.metadata.segment_at(recovery.entry).bookies, recovery.entry)
        if finding is Finding.UNDECIDED:
            self.recoveries.remove(recovery)
        elif finding is Finding.FOUND:
            if self.write_back(recovery, data):
                recovery.written, recovery.entry = recovery.entry, recovery.entry + 1
            else:
                self.recoveries.remove(recovery)
        else:
            self.close(recovery)

    def find(self, bookies, entry):
        answers = []
        for index in write_set(entry, self.ensemble_size, self.write_quorum):
            bookie = self.bookies[bookies[index]]
            if not bookie.alive:
                answers.append(RecoveryRead.UNKNOWN)
            else:
                bookie.fenced = True
                answers.append(RecoveryRead.FOUND if entry in bookie.stored else RecoveryRead.MISSING)
            finding = plan_finding(answers, self.write_quorum, self.ack_quorum)
            if finding is not Finding.ASK_ON:
                return finding
        raise AssertionError("all were asked and nothing was found")

    def write_back(self, recovery, data):
        """Store the entry on its write set, with down bookies replaced in memory. Whether an ack quorum has it."""
        entry = recovery.entry
        current = replace(recovery.metadata, segments=recovery.segments or recovery.metadata.segments)
        members = write_set(entry, self.ensemble_size, self.write_quorum)
        down = [index for index in members if not self.bookies[current.ensemble[index]].alive]
        others = [name for name in BOOKIES if name not in current.ensemble and self.bookies[name].alive]
        found = dict(zip(down, data.draw(st.permutations(others), "others"), strict=False))
        if found:
            recovery.segments = with_ensemble(current, entry, replace_members(current.ensemble, found)).segments
            current = replace(recovery.metadata, segments=recovery.segments)
        holders = [index for index in members if self.bookies[current.ensemble[index]].alive]
        for index in holders:
            self.bookies[current.ensemble[index]].stored.setdefault(entry, entry - 1)
        return len(holders) >= self.ack_quorum

    def close(self, recovery):
        self.recoveries.remove(recovery)
        if recovery.version == self.version:
            self.metadata = plan_closed(recovery.metadata, recovery.written, 0, recovery.segments)
            self.version += 1
        assert self.metadata.state is LedgerState.CLOSED
        self.ends.append(self.metadata.last_entry)

    # What must hold

    @invariant()
    def acknowledged_entries_are_on_an_ack_quorum(self):
        for entry in range(getattr(self, "acknowledged", 0)):
            bookies = self.metadata.segment_at(entry).bookies
            members = write_set(entry, self.ensemble_size, self.write_quorum)
            holders = [index for index in members if entry in self.bookies[bookies[index]].stored]
            assert len(holders) >= self.ack_quorum, f"entry {entry} is acknowledged and held by {holders}"

    @invariant()
    def nothing_is_acknowledged_that_was_not_sent(self):
        if hasattr(self, "quorum"):
            assert self.acknowledged <= self.quorum.next_entry

    @invariant()
    def recoveries_agree_and_keep_what_was_acknowledged(self):
        for end in getattr(self, "ends", ()):
            assert end == self.ends[0]
            assert end >= self.acknowledged - 1

    @invariant()
    def entries_of_a_closed_ledger_are_on_an_ack_quorum(self):
        if getattr(self, "ends", ()):
            for entry in range(self.ends[0] + 1):
                bookies = self.metadata.segment_at(entry).bookies
                members = write_set(entry, self.ensemble_size, self.write_quorum)
                holders = sum(entry in self.bookies[bookies[index]].stored for index in members)
                assert holders >= self.ack_quorum


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)
