"""What is shown of a topic's backlog beside its size: how old it is, and what quotas allow. No I/O."""

from typing import NamedTuple

from mledger.broker.topics.backlog_limits import Quotas
from mledger.metastore.cluster.service_policies import QuotaKind
from mledger.topics.backlog_quota import SECOND_MS, OldestBacklog

NO_LIMIT = -1
NOT_KNOWN = -1


class QuotaLimits(NamedTuple):
    """The bytes that a backlog may have, and how many seconds old it may be; -1: no limit."""

    size: int
    age_s: int


class BacklogAge(NamedTuple):
    """How many seconds old a backlog is at least, -1 if that is not known, and whose it is."""

    seconds: int
    subscription: str | None


def plan_quota_limits(quotas: Quotas) -> QuotaLimits:
    """The limits of the backlog."""
    by_kind = dict(quotas)
    size, age = by_kind.get(QuotaKind.SIZE), by_kind.get(QuotaKind.AGE)
    return QuotaLimits(NO_LIMIT if size is None else size.limit_bytes, NO_LIMIT if age is None else age.limit_s)


def plan_backlog_age(oldest: OldestBacklog | None, now_ms: int, *, waiting: bool) -> BacklogAge:
    """How old the backlog is at least, and whose: since the ledger of its oldest entry was closed, as in Pulsar.

    Not known while that ledger is open, and unless entries of a subscription are `waiting`.
    """
    if oldest is None or not waiting:
        return BacklogAge(NOT_KNOWN, None)
    return BacklogAge(max(0, now_ms - oldest.closed_ms) // SECOND_MS, oldest.name)
