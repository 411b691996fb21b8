"""Who may produce to a topic: Pulsar's access modes (Shared, Exclusive, WaitForExclusive, ExclusiveWithFencing).

A topic has an epoch, which rises whenever a producer gets exclusive access. An exclusive producer that
reconnects gives the epoch it had: if another one had the topic meanwhile, it never gets it back.
"""

import enum

from msgspec import Struct

NO_EPOCH = -1
MOST_EPOCH = 1 << 62
"""What a client may give: exclusive producers raise it from there, and Pulsar's brokers have 63 bits for it."""


class AccessMode(enum.IntEnum):
    """How a producer wants the topic; the values are those of the protocol."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


class Admission(enum.Enum):
    """The answer to a producer that wants to use a topic."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    WAIT = "wait"
    FENCE_OTHERS = "fence others"
    BUSY = "busy"  # the client tries again
    FENCED = "fenced"  # the client never gets the topic


class AccessPlan(Struct, frozen=True):
    """An admission; `epoch` is the topic's from then on, `reason` says why it is refused."""

    admission: Admission
    epoch: int = NO_EPOCH
    reason: str = ""


def plan_access(
    mode: AccessMode, *, producers: int, exclusive: str, waiting: int, given_epoch: int, topic_epoch: int
) -> AccessPlan:
    """Decide whether a producer gets the topic.

    Args:
        mode: what it asks for.
        producers: how many producers the topic has.
        exclusive: the name of the one that has it alone, empty if none does.
        waiting: how many wait for exclusive access.
        given_epoch: the topic's epoch as the producer knows it, NO_EPOCH if it has none.
        topic_epoch: the topic's epoch, NO_EPOCH if there was no exclusive producer yet.
    """
    if mode is AccessMode.SHARED:
        if exclusive or waiting:
            return AccessPlan(Admission.BUSY, reason=f"an exclusive producer has it: {exclusive or 'one that waits'}")
        return AccessPlan(Admission.SHARED, topic_epoch)
    if given_epoch > MOST_EPOCH:
        return AccessPlan(Admission.FENCED, reason=f"no topic has had the epoch {given_epoch} that it gives")
    old = NO_EPOCH < given_epoch < topic_epoch
    epoch = given_epoch if given_epoch > NO_EPOCH else topic_epoch + 1
    fenced = AccessPlan(Admission.FENCED, reason=f"another producer has had it since: its epoch is {topic_epoch}")
    if mode is AccessMode.EXCLUSIVE_WITH_FENCING:
        return fenced if old else AccessPlan(Admission.FENCE_OTHERS, epoch)
    if mode is AccessMode.WAIT_FOR_EXCLUSIVE:
        if producers or exclusive:
            return AccessPlan(Admission.WAIT)
        return fenced if old else AccessPlan(Admission.EXCLUSIVE, epoch)
    if exclusive or waiting:
        return AccessPlan(Admission.FENCED, reason=f"an exclusive producer has it: {exclusive or 'one that waits'}")
    if producers:
        return AccessPlan(Admission.FENCED, reason=f"it has {producers} shared producers")
    return fenced if old else AccessPlan(Admission.EXCLUSIVE, epoch)
