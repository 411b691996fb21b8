"""Events of runs in which a perfect broker serves a client, for the checker's tests. Time stands in for a clock."""

import random
from typing import Any

from tests.clients.scenario import SINGLE, Scenario

BATCH = 4
KEYS = 3


class SimulatedRun:
    """Events, the messages by number, and those that were left for the consumer that subscribes anew."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.places: dict[int, list[int]] = {}
        self.left: list[int] = []
        self.disturbed: list[tuple[float, float]] = []
        self.now = 1000.0

    def __repr__(self) -> str:
        return f"<run of {len(self.numbers)} messages>"

    @property
    def numbers(self) -> list[int]:
        """All but the last message."""
        return [number for number in self.places if number >= 0]

    def acknowledged(self, event: str = "acked") -> list[dict[str, Any]]:
        """The events of acknowledgements by the first consumers."""
        closed = next(at for at, each in enumerate(self.events) if each["event"] == "closed")
        return [each for each in self.events[:closed] if each["event"] == event]

    def place(self, number: int) -> list[int]:
        """Where a message is."""
        return self.places[number]

    def say(self, event: str, **fields: Any) -> None:
        """One event, a millisecond after the one before."""
        self.now += 0.001
        self.events.append({"event": event, "at": self.now, **fields})

    def send(self, number: int) -> None:
        """A message is sent and answered."""
        self.say("send", producer=_producer(number), number=number, key=_key(number), delay_ms=0)
        self.say("sent", producer=_producer(number), number=number, id=self.places[number])

    def receipt(self, number: int, phase: str, redelivery: int = 0, at: float | None = None) -> dict[str, Any]:
        """A message's receipt as an event."""
        fields = {"consumer": 0, "phase": phase, "number": number, "producer": _producer(number), "key": _key(number)}
        more = {"id": self.places[number], "redelivery": redelivery, "intact": True}
        return {"event": "received", "at": self.now if at is None else at, **fields, **more}

    def receive(self, number: int, phase: str, redelivery: int = 0) -> None:
        """A message is received."""
        self.now += 0.001
        self.events.append(self.receipt(number, phase, redelivery))

    def acknowledge(self, scenario: Scenario, number: int, *, cumulative: bool = False) -> None:
        """A message is acknowledged, with an answer where the scenario has them."""
        for event in ("ack", "acked") if scenario.receipts else ("ack",):
            self.say(event, consumer=0, number=number, id=self.places[number], cumulative=cumulative)

    def is_whole(self, scenario: Scenario, place: list[int]) -> bool:
        """Whether the broker has to know of a message's acknowledgement: all of its entry were acknowledged once."""
        if scenario.ack == "batch_index" or place[3] < 0:
            return True
        members = [number for number, each in self.places.items() if each[:2] == place[:2]]
        return not set(members) & set(self.left)


def _producer(number: int) -> int:
    return number % 2 if number >= 0 else -1


def _key(number: int) -> str:
    return f"k{number % KEYS}"


def good_run(scenario: Scenario, count: int, chance: random.Random) -> SimulatedRun:
    """A run of `count` messages in which nothing goes wrong."""
    run = SimulatedRun()
    for number in range(count):
        entry, index = divmod(number, BATCH) if scenario.batching else (number, -1)
        run.places[number] = [5, entry, 0, index]
        run.send(number)
    run.say("subscribed", consumer=0, phase="first")
    if scenario.disturbance != "none":
        run.disturbed = [(run.now + 0.0001, run.now + 0.0002)]
    _first(run, scenario, chance)
    run.say("produced")
    if scenario.seek != "none":
        _sought(run, scenario)
    run.say("closed", consumer=0)
    run.say("subscribed", consumer=0, phase="resumed")
    run.places[-1] = [5, count, 0, -1]
    run.send(-1)
    for number in [*run.left, -1]:
        run.receive(number, "resumed")
        run.acknowledge(scenario, number, cumulative=scenario.ack == "cumulative")
    run.say("closed", consumer=0)
    run.say("ended")
    return run


def _first(run: SimulatedRun, scenario: Scenario, chance: random.Random) -> None:
    numbers = run.numbers
    if scenario.type == "shared":
        entries = sorted({run.place(number)[1] for number in numbers}, key=lambda _: chance.random())
        numbers = [number for entry in entries for number in numbers if run.place(number)[1] == entry]
    if scenario.ack == "cumulative":
        for taken, number in enumerate(numbers):
            run.receive(number, "first")
            if taken % 5 == 4:
                run.acknowledge(scenario, number, cumulative=True)
        last = max((number for number in numbers if number % 5 == 4), default=-1)
        run.left = _unacknowledged_above(run, scenario, last)
        return
    negative = set()
    for number in numbers:
        run.receive(number, "first")
        if scenario.redelivery == "negative" and chance.random() < 0.2:
            negative.add(run.place(number)[1])
            run.say("negative", consumer=0, number=number, id=run.place(number))
        elif chance.random() < 0.2:
            run.left.append(number)
        else:
            run.acknowledge(scenario, number)
    _again(run, scenario, negative)
    if scenario.ack != "batch_index":
        entries = {run.place(number)[1] for number in run.left}
        run.left = [number for number in run.numbers if run.place(number)[1] in entries]


def _again(run: SimulatedRun, scenario: Scenario, entries: set[int]) -> None:
    """What was negatively acknowledged comes again: whole entries, unless the broker knows of batch indexes."""
    acknowledged = {tuple(each["id"]) for each in run.events if each["event"] == "ack"}
    for entry in sorted(entries):
        for number in run.numbers:
            if run.place(number)[1] != entry:
                continue
            if scenario.ack == "batch_index" and tuple(run.place(number)) in acknowledged:
                continue
            count = 0 if scenario.type in SINGLE else 1
            run.receive(number, "first", count)
            if number not in run.left:
                run.acknowledge(scenario, number)


def _unacknowledged_above(run: SimulatedRun, scenario: Scenario, last: int) -> list[int]:
    if last < 0 or scenario.ack == "batch_index" or not scenario.batching:
        return [number for number in run.numbers if number > last]
    entry = run.place(last)[1]
    if last % BATCH == BATCH - 1 or last == max(run.numbers):
        entry += 1
    return [number for number in run.numbers if run.place(number)[1] >= entry]


def _sought(run: SimulatedRun, scenario: Scenario) -> None:
    behind = run.numbers
    fields: dict[str, Any] = {}
    if scenario.seek == "id":
        target = run.place(behind[len(behind) // 2])[:2]
        fields = {"position": target}
        behind = [number for number in behind if run.place(number)[:2] > target]
    run.say("seek", kind=scenario.seek, **fields)
    run.say("sought")
    for number in behind:
        run.receive(number, "sought")
        run.acknowledge(scenario, number)
    run.left = []
