"""Schedules: what clients do and what goes wrong, drawn from a seed. They are data, so that they can be shortened."""

from dataclasses import dataclass
from random import Random

BOOKIES = ("bookie-a", "bookie-b", "bookie-c", "bookie-d", "bookie-e", "bookie-f")
SPAN_S = 2.0
"""In this time everything is begun that a schedule has; then faults stop."""

BOOKIE_FAULTS = (
    "kill",
    "power loss",
    "kill at disk change",
    "power loss at disk change",
    "freeze",
    "isolate",
    "slow",
    "cut",
    "sync fails",
    "disk full",
    "bad file",
    "journal unmounted",
    "session expires",
    "metadata away",
)
_CLOSE, _OF_BOOKIES, _AGAIN = 0.7, 0.75, 0.3
METADATA_FAULTS = ("lag", "lose before", "lose after", "client session expires", "client away")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens at a simulated time: a fault, or a client's next request.

    `number` and `seconds` mean what `what` makes of them: entries, changes to go, how long.
    """

    at: float
    who: str
    what: str
    number: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.who}: {self.what} {self.number} {self.seconds:.3f}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes and times of the product that a schedule changes."""

    most_ledgers: int = 65_536
    """Ledgers that a bookie keeps in memory."""
    largest_run: int = 256 << 10
    garbage_s: float = 0.7
    grace_s: float = 1.0
    overreplicated_s: float = 0.0
    request_bytes: int = 0
    """The most bytes of a metadata request (jute.maxbuffer); 0: as many as ZooKeeper takes."""
    compressed: bool = False
    """Whether the topic's record is compressed, and too large for a request if it is not."""
    impatient: bool = False
    """Whether owners wait for metadata writes for less than a session, and try again soon."""
    entries_a_ledger: int = 6


@dataclass(frozen=True, slots=True)
class Schedule:
    """One simulation: its seed, the sizes of its ensembles, and its steps in the order of time."""

    seed: str
    ensemble: tuple[int, int, int]
    """Ensemble size, write quorum, ack quorum."""
    bookies: int
    steps: tuple[Step, ...]
    topics: bool = False
    """Whether owners with cursors run instead of writers of ledgers."""
    limits: Limits = Limits()


def plan_plain(seed: str) -> Schedule:
    """A schedule of anything, with anything that goes wrong."""
    rng = Random(f"{seed}/schedule")
    return plan_topics(seed, rng) if rng.random() < 0.4 else _ledgers(seed, rng)


def plan_sizes(rng: Random) -> tuple[tuple[int, int, int], int]:
    """Ensemble size, write and ack quorum; and how many bookies there are."""
    ensemble, bookies = rng.choice(
        [((3, 2, 2), 4), ((2, 2, 2), 3), ((3, 3, 2), 4), ((2, 2, 1), 3), ((3, 3, 3), 4), ((3, 3, 2), 3)]
    )
    return ensemble, bookies


def _ledgers(seed: str, rng: Random) -> Schedule:
    sizes, bookies = plan_sizes(rng)
    steps: list[Step] = []
    for number in range(rng.choice((1, 1, 2))):
        steps += _writer(f"writer-{number}", rng)
    for number in range(rng.choice((0, 1, 1, 2))):
        who = f"reader-{number}"
        for _ in range(rng.randint(1, 3)):
            what = rng.choice(("recover", "recover", "look", "delete"))
            at = rng.choice(steps).at + rng.expovariate(100.0) if rng.random() < _CLOSE else rng.uniform(0.05, SPAN_S)
            steps.append(Step(at, who, what, rng.randrange(4)))
    steps += plan_faults(rng, bookies, ("writer-0", "reader-0"), steps)
    return Schedule(seed, sizes, bookies, tuple(sorted(steps, key=lambda step: step.at)))


def _writer(who: str, rng: Random) -> list[Step]:
    at, steps = rng.uniform(0.0, 0.1), []
    for _ in range(rng.choice((1, 1, 2, 3))):
        steps.append(Step(at, who, "create"))
        for _ in range(rng.randint(1, 8)):
            at += rng.choice((0.0, 0.0, rng.expovariate(1000.0), rng.expovariate(40.0), rng.expovariate(6.0)))
            size = rng.choice((8, 8, 8, 400, 6000))
            steps.append(Step(at, who, "append", rng.randint(1, 5), float(size)))
        at += rng.expovariate(20.0)
        steps.append(Step(at, who, rng.choice(("close", "close", "leave", "wait", "die"))))
        at += rng.expovariate(10.0)
    return [step for step in steps if step.at < SPAN_S]


def plan_faults(rng: Random, bookies: int, clients: tuple[str, ...], steps: list[Step]) -> list[Step]:
    """Faults, most of them close to something that a client does."""
    found = []
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6))):
        near = rng.choice(steps).at + rng.expovariate(300.0) if rng.random() < _CLOSE else rng.uniform(0.0, SPAN_S)
        long = rng.choice((0.01, 0.1, 0.3, 1.0, 3.0)) * (0.5 + rng.random())
        if rng.random() < _OF_BOOKIES:
            who, what = BOOKIES[rng.randrange(bookies)], rng.choice(BOOKIE_FAULTS)
            found.append(Step(near, who, what, rng.randint(1, 40), long))
            if rng.random() < _AGAIN:
                again = near + rng.choice((0.01, 0.1, 0.4, 0.8)) * (0.5 + rng.random())
                what = rng.choice(("kill", "power loss", "power loss at disk change"))
                found.append(Step(again, who, what, rng.randint(1, 40), rng.choice((0.01, 0.1, 1.0))))
        else:
            found.append(Step(near, rng.choice(clients), rng.choice(METADATA_FAULTS), rng.randrange(2), long))
    return found


def plan_topics(seed: str, rng: Random) -> Schedule:
    """Owners of one topic, one after another."""
    sizes, bookies = plan_sizes(rng)
    steps: list[Step] = []
    at = 0.0
    for number in range(rng.choice((1, 2, 2, 3))):
        who = f"owner-{number}"
        steps.append(Step(at, who, "open"))
        at += 0.02 * rng.random()
        for _ in range(rng.randint(3, 24)):
            at += rng.choice((0.0, 0.0, rng.expovariate(1000.0), rng.expovariate(100.0), rng.expovariate(12.0)))
            what = rng.choices(_OWNER_STEPS, _OWNER_WEIGHTS)[0]
            steps.append(Step(at, who, what, rng.randrange(64), rng.random()))
        at += rng.expovariate(100.0)
        steps.append(Step(at, who, rng.choice(("close", "die", "die", "leave", "leave"))))
    steps = [step for step in steps if step.at < SPAN_S]
    steps += plan_faults(rng, bookies, ("owner-0", "owner-1"), steps)
    return Schedule(seed, sizes, bookies, tuple(sorted(steps, key=lambda step: step.at)), topics=True)


_OWNER_STEPS = (
    "append",
    "subscribe",
    "acknowledge",
    "acknowledge up to",
    "flush",
    "trim",
    "unsubscribe",
    "roll over",
)
_OWNER_WEIGHTS = (12.0, 4.0, 6.0, 5.0, 2.0, 3.0, 0.3, 1.0)
