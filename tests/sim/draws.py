"""Draws the schedule of a seed: a plain one, or one that dwells on something that plain ones seldom reach."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from tests.sim.schedule import (
    BOOKIE_FAULTS,
    BOOKIES,
    METADATA_FAULTS,
    SPAN_S,
    Limits,
    Schedule,
    Step,
    plan_faults,
    plan_plain,
    plan_sizes,
    plan_topics,
)

_PLAIN, _LOST_DISK, _MOVED_BACK, _MOVED_OPEN = 0.6, 0.04, 0.06, 0.03


def plan_schedule(seed: str) -> Schedule:
    """The schedule of a seed."""
    if Random(f"{seed}/lost disk").random() < _LOST_DISK:
        return _lost_disk(seed)
    if Random(f"{seed}/moved back").random() < _MOVED_BACK:
        return _moved_back(seed)
    if Random(f"{seed}/moved while open").random() < _MOVED_OPEN:
        return _moved_while_open(seed)
    rng = Random(f"{seed}/kind")
    if rng.random() < _PLAIN:
        return plan_plain(seed)
    return rng.choice(_KINDS)(seed, rng)


def _ordered(seed: str, sizes: tuple[int, int, int], bookies: int, steps: list[Step], limits: Limits) -> Schedule:
    steps = [step for step in steps if step.at < SPAN_S]
    return Schedule(seed, sizes, bookies, tuple(sorted(steps, key=lambda step: step.at)), limits=limits)


def _writes(who: str, at: float, rng: Random, ledgers: int, appends: tuple[int, int], size: float) -> list[Step]:
    steps = []
    for _ in range(ledgers):
        steps.append(Step(at, who, "create"))
        for _ in range(rng.randint(*appends)):
            at += rng.choice((0.0, 0.0, rng.expovariate(1000.0), rng.expovariate(60.0)))
            steps.append(Step(at, who, "append", rng.randint(2, 5), size * rng.choice((0.1, 1.0, 1.0))))
        at += rng.expovariate(60.0)
        steps.append(Step(at, who, rng.choice(("close", "close", "leave"))))
        at += rng.expovariate(40.0)
    return steps


def _garbage(seed: str, rng: Random) -> Schedule:
    """Many large entries, ledgers that are deleted, files that are emptied, and bookies that end meanwhile."""
    sizes, bookies = rng.choice((((2, 2, 2), 2), ((2, 2, 2), 3), ((3, 2, 2), 4)))
    steps = [
        *_writes("writer-0", 0.0, rng, rng.randint(2, 3), (2, 6), 6000.0),
        *_writes("writer-1", 0.02 * rng.random(), rng, rng.randint(2, 3), (2, 6), 6000.0),
    ]
    written = max(step.at for step in steps)
    steps += [
        Step(written + 0.1 * rng.random(), "reader-0", "delete", rng.randrange(6)) for _ in range(rng.randint(1, 3))
    ]
    steps += [
        Step(written * rng.random(), f"reader-{rng.randrange(2)}", "recover", rng.randrange(6))
        for _ in range(rng.randint(0, 2))
    ]
    for _ in range(rng.randint(1, 3)):
        who, at = BOOKIES[rng.randrange(bookies)], (written + 0.8) * rng.random()
        match rng.choice(("move", "move", "full", "batch", "lag", "bad", "other")):
            case "move":
                steps.append(Step(0.0, who, "slow threads", 1, written * rng.uniform(0.5, 1.5)))
                steps.append(Step(0.0, who, "kill after move", rng.randint(1, 2), 0.0))
            case "full":
                steps.append(Step(max(at, 0.15), who, "disk full", rng.randint(1, 40), rng.uniform(0.5, 2.0)))
                steps += [Step(max(at, 0.15) + more * rng.random(), who, "kill", 1, 0.0) for more in (0.2, 0.8)]
            case "batch":
                steps.append(Step(written * rng.random(), who, "batch fails"))
                steps.append(Step(written + 0.3 * rng.random(), who, rng.choice(("kill", "power loss")), 1, 0.0))
            case "lag":
                steps.append(
                    Step(written * rng.random() / 2, "reader-0", "lag", rng.randrange(2), rng.uniform(0.2, 1.5))
                )
            case "bad":
                steps.append(Step(at, who, "bad file", rng.randint(1, 40), rng.uniform(0.2, 1.5)))
            case _:
                what = rng.choice(("kill", "power loss", "power loss at disk change", "sync fails"))
                steps.append(Step(at, who, what, rng.randint(1, 40), 0.1))
    steps.append(Step(min(written + rng.uniform(0.5, 1.4), SPAN_S - 0.01), "reader-0", "idle"))
    limits = Limits(1, 8000, garbage_s=0.1, grace_s=0.15)
    return _ordered(seed, sizes, bookies, steps, limits)


def _creations(seed: str, rng: Random) -> Schedule:
    """Cursors that are created at the earliest entry while others are given up, and ledgers are trimmed."""
    at, who, one, two = 0.0, "owner-0", rng.choice((0.1, 0.5)), 0.9
    steps = [Step(at, who, "open"), Step(0.01, who, "subscribe", 1, one)]
    for _ in range(rng.randint(3, 8)):
        at += rng.expovariate(100.0)
        steps.append(Step(0.03 + at, who, "append", rng.randrange(64), rng.random()))
    at += 0.05 + rng.expovariate(100.0)
    what = rng.choice(("unsubscribe", "unsubscribe", "acknowledge up to"))
    steps.append(Step(at + rng.choice((-0.005, 0.0, 0.001)) * rng.random(), who, what, rng.randrange(64), one))
    steps.append(Step(at, who, "subscribe", 1, two))
    steps += [Step(at + 0.005 * rng.random(), who, "trim", 1, one) for _ in range(3)]
    steps.append(Step(at + 0.3 * rng.random(), who, rng.choice(("close", "die", "leave"))))
    sizes, bookies = plan_sizes(rng)
    if rng.random() < 0.4:
        steps += plan_faults(rng, bookies, (who,), steps)
    return replace(_ordered(seed, sizes, bookies, steps, Limits(entries_a_ledger=2)), topics=True)


def _gone(seed: str, rng: Random) -> Schedule:
    """A bookie that is frozen for good, and others that fail while it may take their place."""
    sizes, bookies = rng.choice((((3, 2, 2), 4), ((2, 2, 2), 3), ((2, 2, 2), 3), ((2, 2, 2), 4)))
    plain = plan_plain(seed)
    while plain.topics:
        seed_of_plain = f"{rng.random()}"
        plain = plan_plain(seed_of_plain)
    steps = [step for step in plain.steps if step.who.startswith(("writer", "reader"))]
    appends = [step.at for step in steps if step.what == "append"] or [0.1]
    gone, at = rng.randrange(bookies), rng.choice(appends)
    steps.append(Step(rng.choice((0.0, at)), BOOKIES[gone], "freeze for good", 1, 0.0))
    others = [number for number in range(bookies) if number != gone]
    for other in rng.sample(others, rng.randint(1, 2)):
        what = rng.choice(("kill at disk change", "power loss at disk change", "cut"))
        steps.append(Step(at, BOOKIES[other], what, rng.randint(1, 3), 0.05 * (0.5 + rng.random())))
    steps += [Step(at + 0.0005 * number, "writer-0", "append", 2, 8.0) for number in range(3)]
    steps.append(Step(SPAN_S - 0.01, "reader-0", "idle"))
    return _ordered(seed, sizes, bookies, steps, Limits(1))


def _moves(seed: str, rng: Random) -> Schedule:
    """Ledgers that are replicated to other bookies while they are open for reading, and deleted where they were."""
    steps = [
        *_writes("writer-0", 0.0, rng, 1, (1, 4), 400.0),
        *(_writes("writer-1", 0.0, rng, 1, (1, 3), 400.0) if rng.random() < 0.5 else ()),
    ]
    at = max(step.at for step in steps) + 0.05
    for _ in range(rng.randint(1, 2)):
        steps.append(Step(at, "reader-0", "hold", rng.randrange(4)))
        at += 0.05 * rng.random()
    for _ in range(rng.randint(2, 4)):
        at += 0.1 * rng.random()
        steps.append(Step(at, "mover-0", "move", rng.randrange(4), rng.random()))
    steps += [
        Step(rng.uniform(at, SPAN_S), "reader-0", "read again", rng.randrange(4)) for _ in range(rng.randint(0, 3))
    ]
    if rng.random() < 0.5:
        steps += plan_faults(rng, 4, ("mover-0", "reader-0"), steps)
    limits = Limits(1, garbage_s=0.1, grace_s=0.15, overreplicated_s=0.1)
    return _ordered(seed, (2, 2, 2), 4, steps, limits)


def _moved_while_open(seed: str) -> Schedule:
    """A ledger that changes its ensemble, is recovered and closed while its earlier ensembles are replicated."""
    rng = Random(f"{seed}/moves while open")
    sizes, bookies = rng.choice((((2, 2, 2), 4), ((3, 2, 2), 5), ((3, 3, 2), 6)))
    steps, at = [Step(0.0, "writer-0", "create")], 0.0
    for _ in range(rng.randint(8, 16)):
        at += rng.expovariate(25.0)
        steps.append(Step(at, "writer-0", "append", rng.randint(1, 4), rng.choice((40.0, 400.0))))
    end = at
    steps.append(Step(end + 0.1 * rng.random(), "writer-0", rng.choice(("close", "leave", "wait"))))
    for _ in range(rng.randint(2, 4)):
        what = rng.choice(("kill", "kill", "isolate", "freeze", "mute"))
        long = rng.choice((0.05, 0.3, 1.0)) * (0.5 + rng.random())
        steps.append(Step(end * rng.random(), BOOKIES[rng.randrange(bookies)], what, 1, long))
    for _ in range(rng.randint(3, 8)):
        mover = f"mover-{rng.randrange(2)}"
        steps.append(Step(end * rng.uniform(0.2, 1.5), mover, "move", 0, rng.random()))
    for _ in range(rng.randint(0, 3)):
        what = rng.choice(("recover", "hold", "read again"))
        steps.append(Step(end * rng.uniform(0.3, 1.3), f"reader-{rng.randrange(2)}", what))
    if rng.random() < 0.3:
        steps += plan_faults(rng, bookies, ("mover-0", "reader-0", "writer-0"), steps)
    limits = Limits(1, garbage_s=0.1, grace_s=0.15, overreplicated_s=0.1)
    return _ordered(seed, sizes, bookies, steps, limits)


def _large(seed: str, rng: Random) -> Schedule:
    """A topic of many small ledgers that are trimmed at once, and metadata servers that take small requests only."""
    at, who, name = 0.0, "owner-0", rng.random()
    steps = [Step(at, who, "open"), Step(0.01, who, "subscribe", 1, name)]
    for _ in range(rng.randint(8, 20)):
        at += rng.expovariate(60.0)
        steps.append(Step(0.02 + at, who, "append", rng.randrange(64), rng.random()))
    at += 0.05
    steps.append(
        Step(at, who, rng.choice(("unsubscribe", "unsubscribe", "acknowledge up to")), rng.randrange(64), name)
    )
    steps.append(Step(at + 0.1 * rng.random(), who, rng.choice(("trim", "append")), 1, name))
    steps.append(Step(at + 0.1 * rng.random(), who, rng.choice(("close", "die", "leave"))))
    sizes, bookies = plan_sizes(rng)
    if rng.random() < 0.5:
        steps += plan_faults(rng, bookies, (who,), steps)
    limits = Limits(request_bytes=1000, compressed=rng.random() < 0.5, entries_a_ledger=2)
    return replace(_ordered(seed, sizes, bookies, steps, limits), topics=True)


def _stays(seed: str, rng: Random) -> Schedule:
    """Owners that stay until everything is quiet, and what keeps their cursors from being created or recovered."""
    plain = plan_topics(seed, rng)
    owners = sorted({step.who for step in plain.steps if step.who.startswith("owner")})
    last, ends = owners[-1], ("close", "die", "leave")
    steps = [step for step in plain.steps if step.who != last or step.what not in ends]
    if len(owners) > 1:
        steps = [replace(step, what="die") if step.what in ends else step for step in steps]
    mine = [step for step in steps if step.who == last]
    at = min(mine[0].at, 0.7)
    if rng.random() < 0.5:
        steps.append(Step(mine[0].at - 1e-6, last, "bookies away at recovery", 1, rng.uniform(1.0, 2.5)))
    else:
        name = rng.random()
        steps.append(Step(at + 0.1, last, "subscribe", 1, name))
        steps.append(
            Step(
                at + 0.1 + rng.choice((0.0, 0.0005, 0.001, 0.002)), last, "lose after, away", 1, 1.0 + rng.random() / 2
            )
        )
        steps.append(Step(min(at + 1.1 + 0.5 * rng.random(), SPAN_S), last, rng.choice(("subscribe", "trim")), 1, name))
    steps.append(Step(SPAN_S, last, "stay"))
    ordered = tuple(sorted((step for step in steps if step.at <= SPAN_S), key=lambda step: step.at))
    return replace(plain, steps=ordered, limits=Limits(impatient=True))


def _parts(seed: str, rng: Random) -> Schedule:
    """Adds and fences that meet at bookies: some are held up on their way, others by slow disks."""
    sizes, bookies = rng.choice((((3, 3, 2), 3), ((3, 3, 2), 3), ((3, 3, 2), 4), ((2, 2, 2), 2), ((2, 2, 2), 3)))
    at = 0.05
    steps = [Step(0.0, "writer-0", "create")]
    steps += [Step(at + 0.002 * number, "writer-0", "append", rng.randint(1, 3), 8.0) for number in range(4)]
    at += 0.02
    if rng.random() < 0.6:
        whole = rng.randrange(bookies)
        parted = [number for number in range(bookies) if number != whole]
        mask = sum(1 << number for number in parted)
        steps.append(Step(at - 0.001, "writer-0", "part", mask, rng.uniform(0.15, 0.4)))
        steps.append(Step(at, "reader-0", "part", 1 << rng.choice(parted), rng.uniform(0.005, 0.12)))
    for number in range(bookies):
        if rng.random() < 0.5:
            steps.append(Step(at - 0.002, BOOKIES[number], "slow disk", 1, 0.3))
    begun = at + 0.004 * rng.random()
    steps.append(Step(begun, "reader-0", "recover", 0))
    appends = rng.randint(1, 10)
    steps += [Step(at + 0.012 * rng.random(), "writer-0", "append", rng.randint(1, 3), 8.0) for _ in range(appends)]
    if rng.random() < 0.3:
        steps += plan_faults(rng, bookies, ("writer-0", "reader-0"), steps)
    return _ordered(seed, sizes, bookies, steps, Limits(1))


def _restarts(seed: str, rng: Random) -> Schedule:
    """Bookies that end between a write and its sync, or without their journal, and lose their power soon again."""
    sizes, bookies = rng.choice((((2, 2, 2), 2), ((2, 2, 2), 3), ((3, 2, 2), 4), ((3, 3, 2), 4)))
    steps = _writes("writer-0", 0.0, rng, 1, (2, 6), rng.choice((8.0, 400.0, 6000.0)))[:-1]
    last = max(step.at for step in steps)
    for number in rng.sample(range(bookies), rng.randint(1, 2)):
        at = last * rng.random() + 0.15
        if rng.random() < 0.4:
            steps.append(Step(last + 0.15 + 0.02 * rng.random(), BOOKIES[number], "journal unmounted", 1, 1.2))
        else:
            what = rng.choice(("kill at disk change", "sync fails", "kill at disk change"))
            steps.append(Step(at, BOOKIES[number], what, rng.randint(1, 6), 0.0))
            again = rng.choice(("power loss", "power loss at disk change"))
            steps.append(Step(at + 0.32 + 0.4 * rng.random(), BOOKIES[number], again, rng.randint(1, 20), 0.05))
    steps += [replace(step, at=step.at + 0.15) for step in steps if step.what == "append" and rng.random() < 0.7]
    steps += [Step(last + 0.5 + 0.5 * rng.random(), "reader-0", "recover", 0) for _ in range(rng.randint(1, 3))]
    steps.append(Step(min(last + 1.2, SPAN_S - 0.01), "reader-0", "idle"))
    return _ordered(seed, sizes, bookies, steps, Limits(1))


def _lost_disk(seed: str) -> Schedule:
    """One bookie's disk is replaced with an empty one, in ensembles of which others answer late, or one way only."""
    plain, rng = plan_plain(seed), Random(f"{seed}/disks")
    sizes, bookies = rng.choice(
        [((5, 3, 2), 6), ((4, 3, 2), 5), ((5, 5, 3), 6), ((3, 3, 2), 4), ((3, 3, 3), 4), ((3, 2, 2), 4), ((2, 2, 2), 3)]
    )
    hosts = BOOKIES[:bookies]
    others = (*BOOKIES[bookies:], "journal unmounted")
    steps = [step for step in plain.steps if step.who not in others and step.what not in others]
    used = [step.at for step in steps if step.what not in BOOKIE_FAULTS] or [0.1]

    def near() -> float:
        return max(0.0, rng.choice(used) + rng.choice((-1, 1, 1)) * rng.expovariate(200.0))

    at = near()
    steps.append(Step(at, rng.choice(hosts), "lost disk", 1, rng.choice((0.01, 0.3, 1.0)) * (0.5 + rng.random())))
    for _ in range(rng.choice((0, 1, 1, 2))):
        what = rng.choice(("deaf", "mute", "isolate", "kill", "freeze"))
        when = rng.choice((near(), at + 0.8 * rng.random()))
        steps.append(Step(when, rng.choice(hosts), what, 1, rng.choice((0.1, 0.3, 1.0)) * (0.5 + rng.random())))
    return replace(_ordered(seed, sizes, bookies, steps, plain.limits), topics=plain.topics)


def _moved_back(seed: str) -> Schedule:
    """Cursors that are reset, topics that are truncated or terminated, in whatever else owners do."""
    rng = Random(f"{seed}/moves back")
    plain = plan_topics(seed, rng)
    used = [
        step for step in plain.steps if step.who.startswith("owner") and step.what not in ("open", *METADATA_FAULTS)
    ]
    steps = list(plain.steps)
    for _ in range(rng.choice((1, 2, 3, 4, 6))):
        near = rng.choice(used)
        what = rng.choices(("reset", "truncate", "terminate"), (12.0, 2.0, 1.0))[0]
        at = near.at + rng.choice((0.0, rng.expovariate(2000.0), rng.expovariate(100.0)))
        steps.append(Step(at, near.who, what, rng.randrange(64), rng.random()))
    steps += [
        Step(left.at + 1e-6, left.who, "reset", rng.choice((0, 0, rng.randrange(64))), rng.random())
        for left in used
        if left.what == "leave" and rng.random() < 0.5  # the owner comes back when another one has the topic
    ]
    return replace(_ordered(seed, plain.ensemble, plain.bookies, steps, plain.limits), topics=True)


_KINDS: Sequence[Callable[[str, Random], Schedule]] = (
    *(_garbage, _creations, _gone, _moves, _large, _stays, _parts, _restarts),
)
