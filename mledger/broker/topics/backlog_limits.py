"""What limits a topic's backlog: messages expire after their time to live, and quotas stop producers or evict.
Also compaction, which is due by the size of what came since the last one.

A policy of the topic or its namespace comes before the broker's setting. Topics that brokers use keep their messages,
and their producers, as in Pulsar.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from mledger.admin.system_topics import is_for_brokers
from mledger.broker.periodic_check import PeriodicCheck
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor import Cursor
from mledger.metastore.cluster.service_policies import BacklogQuota, QuotaKind, QuotaPolicy, ServicePolicies
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.topics.backlog_quota import KEPT

log = get_logger(__name__)

IN_A_ROW = 50
READ_AT_ONCE = 16
"""Topics whose oldest entries are read at the same time (`preciseTimeBasedBacklogQuotaCheck`)."""
Quotas = Sequence[tuple[QuotaKind, BacklogQuota]]


def plan_ttl_s(policies: ServicePolicies, settings: BrokerSettings) -> float:
    """How many seconds unacknowledged messages are kept; 0: for ever."""
    return settings.ttl_s if policies.message_ttl_s is None else max(0, policies.message_ttl_s)


def plan_quotas(policies: ServicePolicies, settings: BrokerSettings) -> Quotas:
    """The quotas in force."""
    default = BacklogQuota(
        settings.backlog_quota_bytes, round(settings.backlog_quota_s), QuotaPolicy(settings.backlog_quota_policy)
    )
    found = ((QuotaKind.SIZE, policies.size_quota or default), (QuotaKind.AGE, policies.age_quota or default))
    return [
        (kind, quota) for kind, quota in found if (quota.limit_bytes if kind is QuotaKind.SIZE else quota.limit_s) > 0
    ]


class BacklogLimits:
    """Looks after the open topics' backlogs by the clock, at the intervals that the settings name, by its `checks`."""

    def __init__(self, topics: Callable[[], Iterable[BrokerTopic]], settings: BrokerSettings) -> None:
        self._topics = topics
        self._settings = settings
        self._expiry = self._check("message expiry", settings.expiry_check_s, self.expire)
        self.checks = [self._expiry, self._check("compaction", settings.compaction_check_s, self.compact)]
        at_once = READ_AT_ONCE if settings.precise_backlog_age else 1
        self._quotas = self._check("backlog quotas", settings.backlog_quota_check_s, self.check_quota, at_once)
        if settings.backlog_quota_check:
            self.checks.append(self._quotas)
        if settings.deduplication_snapshot_interval_s:
            interval_s = settings.deduplication_snapshot_interval_s
            self.checks.append(self._check("deduplication snapshots", interval_s, self.keep_sequence_ids))

    async def expire(self, topic: BrokerTopic) -> None:
        """Acknowledge what has outlived its time to live; nothing while that is not known.

        On every subscription but those that the settings name.
        """
        if not topic.managed_ledger.policies_known or is_for_brokers(topic.name):
            return
        ttl_s = plan_ttl_s(topic.managed_ledger.policies.service, self._settings)
        if not ttl_s:
            return
        before_ms = wall_clock_ms() - round(ttl_s * 1000)
        for name, cursor in list(topic.managed_ledger.open_cursors.items()):
            if name not in KEPT and name not in self._settings.without_expiry:
                work = self._expire_on(topic, name, cursor, before_ms)
                await self._expiry.attempt("messages_not_expired", work, topic=topic.name, subscription=name)

    async def _expire_on(self, topic: BrokerTopic, name: str, cursor: Cursor, before_ms: int) -> None:
        before = cursor.mark_delete
        try:
            expired = await topic.cursor_advances.of(cursor).expire_before(cursor, before_ms)
        finally:  # what cannot be written yet has expired, too
            if cursor.mark_delete != before:
                topic.subscriptions.passed(name)
        if expired:
            log.info("messages_expired", topic=topic.name, subscription=name, entries=expired)

    async def check_quota(self, topic: BrokerTopic) -> None:
        """Stop the producers of a topic over its quota, or evict; a topic back below it admits producers again.

        A topic of which only compaction is so far behind is compacted (C12). A quota that cannot be checked, or an
        eviction that fails, keeps no other quota from its effect.

        Nothing while its policies are not known, since the broker's quota may not be that of the topic.
        """
        if not topic.managed_ledger.policies_known:
            return
        held: QuotaPolicy | None = None
        now_ms = wall_clock_ms()

        async def check(kind: QuotaKind, quota: BacklogQuota) -> None:
            nonlocal held
            if not await self._exceeds(topic, kind, quota, now_ms) or is_for_brokers(topic.name):
                return
            if quota.policy is QuotaPolicy.CONSUMER_BACKLOG_EVICTION:
                await self._evict(topic, kind, quota, now_ms)
            else:
                held = quota.policy

        for kind, quota in plan_quotas(topic.managed_ledger.policies.service, self._settings):
            await self._quotas.attempt("quota_not_kept", check(kind, quota), topic=topic.name, quota=kind.value)
        topic.hold_producers(held)

    async def _exceeds(self, topic: BrokerTopic, kind: QuotaKind, quota: BacklogQuota, now_ms: int) -> bool:
        """Whether subscriptions exceed a quota; where only deduplication or compaction does, these are set going."""
        quotas, precise = topic.managed_ledger.backlog_quotas, self._settings.precise_backlog_age
        if not await quotas.is_exceeded(kind, quota, now_ms, precise=precise):
            return False
        if topic.deduplication is not None:  # its cursor is no backlog, and moves on only by a snapshot
            topic.deduplication.snapshot()
            if not await quotas.is_exceeded(kind, quota, now_ms, precise=precise):
                return False
        if not await quotas.is_exceeded(kind, quota, now_ms, precise=precise, without=(COMPACTION,)):
            topic.compaction.start_if_idle()  # its cursor is no backlog either, and moves on only so
            return False
        return True

    async def _evict(self, topic: BrokerTopic, kind: QuotaKind, quota: BacklogQuota, now_ms: int) -> None:
        def moved(name: str) -> None:
            log.warning("backlog_evicted", topic=topic.name, subscription=name, quota=kind.value)
            topic.subscriptions.passed(name)

        async def expire_before(cursor: Cursor, time_ms: int) -> int:
            return await topic.cursor_advances.of(cursor).expire_before(cursor, time_ms)

        precise, quotas = self._settings.precise_backlog_age, topic.managed_ledger.backlog_quotas
        given_up = await quotas.evict(kind, quota, now_ms, precise=precise, moved=moved, expire_before=expire_before)
        topic.evictions[kind] += bool(given_up)

    async def compact(self, topic: BrokerTopic) -> None:
        """Begin to compact a topic to which enough was published since the last time."""
        if topic.managed_ledger.policies_known:
            await topic.compaction.start_if_due()

    async def keep_sequence_ids(self, topic: BrokerTopic) -> None:
        """Keep what deduplication knows of a topic that is published to no more, which releases its ledgers."""
        if topic.deduplication is not None:
            topic.deduplication.snapshot_if_due()

    def _check(
        self,
        name: str,
        interval_s: float,
        look_at: Callable[[BrokerTopic], Awaitable[None]],
        at_once: int = 1,
    ) -> PeriodicCheck:
        """A check of all topics, so many of them `at_once`."""

        async def look_at_next(topics: Iterator[BrokerTopic]) -> None:
            for number, topic in enumerate(topics, 1):
                if number % max(1, IN_A_ROW // at_once) == 0:  # of ten thousand: clients do not wait for all of them
                    await asyncio.sleep(0)
                if not topic.ended:
                    await check.attempt("backlog_check_failed", look_at(topic), topic=topic.name)

        async def look(_: float) -> None:
            topics = iter(self._topics())
            await asyncio.gather(*(look_at_next(topics) for _ in range(at_once)))

        check = PeriodicCheck(name, lambda: interval_s, look)
        return check
