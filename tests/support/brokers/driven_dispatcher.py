"""A dispatcher with its subscription: entries, a cursor, and consumers that keep what they are sent."""

from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.dispatcher import Dispatched, Dispatcher, NextRead
from mledger.broker.dispatch.waiting.delayed_bucket import DelayedEntry
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.facts import EntryFacts, FactsRun
from mledger.metastore.records.position import Position

LEDGER = 7


@dataclass
class SentEntry:
    """One entry as a consumer got it."""

    consumer: str
    position: Position
    messages: int
    redeliveries: int


def at(*entry_ids: int) -> list[Position]:
    """The positions of entries."""
    return [Position(LEDGER, entry_id) for entry_id in entry_ids]


def entries(sent: Iterable[SentEntry]) -> list[int]:
    """The ids of what was sent."""
    return [one.position.entry_id for one in sent]


@dataclass
class DrivenDispatcher:
    """Does what a dispatcher's driver does, over entries in memory; reads are answered at once or when told."""

    dispatcher: Dispatcher
    now_ms: int = 0
    tailing: bool = False
    facts: dict[Position, EntryFacts] = field(default_factory=dict)
    acknowledged: set[Position] = field(default_factory=set)
    read_position: int = 0
    sent: list[SentEntry] = field(default_factory=list)
    reads: list[NextRead] = field(default_factory=list)
    in_flight: list[tuple[NextRead, list[FactsRun]]] = field(default_factory=list)

    def publish(self, *facts: EntryFacts | int) -> list[Position]:
        """Append entries; a number is an entry of so many messages. Returns their positions."""
        first = len(self.facts)
        for i, fact in enumerate(facts):
            entry = fact if isinstance(fact, EntryFacts) else EntryFacts(fact, 100)
            self.facts[Position(LEDGER, first + i)] = entry
        return [Position(LEDGER, first + i) for i in range(len(facts))]

    def consumer(self, name: str, permits: int = 0, priority: int = 0, key_ranges=()) -> DispatchConsumer:
        """A new consumer of the subscription, with permits."""
        consumer = DispatchConsumer(name, name, priority, key_ranges)
        self.dispatcher.add(consumer, self.now_ms)
        self.dispatcher.flow(consumer, permits)
        return consumer

    def pump(self) -> list[SentEntry]:
        """Read and dispatch until the dispatcher wants no more, or the topic has no more; returns what went out."""
        before = len(self.sent)
        while (read := self.begin_read()) is not None:
            idle = read.positions is None and not self.in_flight[-1][1]
            self.end_read()
            if idle:
                break
        return self.sent[before:]

    def begin_read(self) -> NextRead | None:
        """Plan a read and carry it out, but do not hand over yet what it brought."""
        read = self.dispatcher.plan_read(self.now_ms, tailing=self.tailing)
        if read is None:
            return None
        self.reads.append(read)
        if read.positions is not None:
            found = [p for p in read.positions if p not in self.acknowledged]
        else:
            if read.rewind:
                self.read_position = 0
            found = self._next(read)
            if found:
                self.read_position = found[-1].entry_id + 1
        self.in_flight.append((read, runs_of(found, self.facts)))
        return read

    def end_read(self, index: int = -1) -> Dispatched:
        """Hand over what a read brought."""
        read, runs = self.in_flight.pop(index)
        dispatched = self.dispatcher.dispatch(read, runs, self.now_ms)
        if dispatched.read_from is not None:
            self.read_position = dispatched.read_from.entry_id
        for delivery in dispatched.deliveries:
            run = runs[delivery.run]
            counts = delivery.redeliveries or [0] * len(delivery.indexes)
            for i, count in zip(delivery.indexes, counts, strict=True):
                position = Position(run.ledger_id, run.first_entry + i)
                self.sent.append(SentEntry(delivery.consumer.name, position, run.messages[i], count))
        return dispatched

    def _next(self, read: NextRead) -> list[Position]:
        found: list[Position] = []
        size = 0
        for entry_id in range(self.read_position, len(self.facts)):
            position = Position(LEDGER, entry_id)
            if position in self.acknowledged:
                continue
            size += self.facts[position].size
            if found and (len(found) >= read.entries or size > read.max_bytes):
                break
            found.append(position)
        return found

    def acknowledge(self, consumer: DispatchConsumer, *positions: Position) -> None:
        """The consumer acknowledges entries."""
        self.acknowledged.update(positions)
        self.dispatcher.acknowledged(consumer, positions)

    def by_consumer(self) -> dict[str, list[int]]:
        """The entry ids that each consumer was sent, in order."""
        got: dict[str, list[int]] = defaultdict(list)
        for one in self.sent:
            got[one.consumer].append(one.position.entry_id)
        return dict(got)


def runs_of(positions: list[Position], facts: dict[Position, EntryFacts]) -> list[FactsRun]:
    """The runs of these positions, in order."""
    groups: list[list[Position]] = []
    for position in positions:
        if groups and groups[-1][-1] == (position.ledger_id, position.entry_id - 1):
            groups[-1].append(position)
        else:
            groups.append([position])
    return [FactsRun.of(group[0].ledger_id, group[0].entry_id, [facts[p] for p in group]) for group in groups]


def planned_seal(index: DelayedIndex) -> list[DelayedEntry]:
    """The entries of the next bucket, planned without a break."""
    return finished(index.plan_seal())


def finished(plan: Generator[None, None, list[DelayedEntry]]) -> list[DelayedEntry]:
    """The entries of a plan that was begun."""
    while True:
        try:
            next(plan)
        except StopIteration as planned:
            return planned.value
