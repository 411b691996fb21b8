"""How the backlogs of very many topics are looked after."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.backlog_limits import IN_A_ROW, READ_AT_ONCE, BacklogLimits
from mledger.metastore.cluster.service_policies import ServicePolicies
from mledger.metastore.records.paths import TopicName
from tests.support.aio import run

SETTINGS = BrokerSettings(deduplication_snapshot_interval_s=0.001, backlog_quota_check=False)


class WatchedTopic:
    """A topic that tells when it is looked at."""

    def __init__(self, looked_at, *, ended=False):
        self.name, self.looked_at, self.ended = "watched", looked_at, ended

    @property
    def deduplication(self):
        self.looked_at(self)


async def turns_between(topics, count):
    """In which turn of the loop each of the first `count` looks was."""
    turn, turns, done = itertools.count(), [], asyncio.Event()

    def looked_at(_):
        turns.append(current)
        if len(turns) == count:
            done.set()

    limits = BacklogLimits(lambda: [WatchedTopic(looked_at, ended=ended) for ended in topics], SETTINGS)
    for check in limits.checks:
        check.start()
    while not done.is_set():
        current = next(turn)
        await asyncio.sleep(0)
    for check in limits.checks:
        check.stop()
    return turns


def test_clients_get_their_turn_while_very_many_topics_are_looked_at():
    turns = run(turns_between([False] * 10 * IN_A_ROW, 10 * IN_A_ROW))
    assert len(set(turns)) >= 10


def test_topics_that_have_ended_are_passed_over():
    assert len(run(turns_between([True, False, True], 1))) == 1


def test_an_error_of_one_topic_stops_neither_the_others_nor_the_next_turn():
    async def main():
        turns, done = [], asyncio.Event()

        def broken(_):
            turns.append("broken")
            raise KeyError("x")

        def sound(_):
            turns.append("sound")
            if len(turns) >= 4:
                done.set()

        limits = BacklogLimits(lambda: [WatchedTopic(broken), WatchedTopic(sound)], SETTINGS)
        for check in limits.checks:
            check.start()
        await done.wait()
        for check in limits.checks:
            check.stop()
        return turns[:4], sum(check.failures for check in limits.checks)

    turns, failures = run(main())
    assert turns == ["broken", "sound"] * 2
    assert failures >= 2


def test_oldest_entries_of_several_topics_are_read_at_once(monkeypatch):
    """One topic whose bookies do not answer does not keep all others waiting."""
    at_once = most = 0
    looked_at, done = [], asyncio.Event()

    async def check_quota(_, topic):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        looked_at.append(topic)
        if len(looked_at) == 3 * READ_AT_ONCE:
            done.set()

    monkeypatch.setattr(BacklogLimits, "check_quota", check_quota)

    async def main(precise):
        settings = BrokerSettings(precise_backlog_age=precise, backlog_quota_check_s=0.001)
        topics = [WatchedTopic(None) for _ in range(3 * READ_AT_ONCE)]
        check = BacklogLimits(lambda: topics, settings).checks[-2]
        check.start()
        await done.wait()
        check.stop()
        assert set(looked_at) == set(topics)

    run(main(True))
    assert most == READ_AT_ONCE


@pytest.mark.parametrize(("name", "looked_at", "held"), [("__change_events", 0, None), ("orders", 1, "hold")])
def test_topics_that_brokers_use_keep_their_messages_and_their_producers(name, looked_at, held):
    """A broker that cannot publish to them, or finds their messages gone, has lost policies and transactions."""

    async def main():
        async def is_exceeded(*_, **__):
            return True

        passed, found = [], []
        cursor = SimpleNamespace(mark_delete=1, expire_before=None)

        class Advances:
            def of(self, cursor):
                passed.append(cursor)
                return self

            async def expire_before(self, cursor, time_ms):
                return 0

        ledger = SimpleNamespace(
            policies_known=True,
            policies=SimpleNamespace(service=ServicePolicies(message_ttl_s=1)),
            open_cursors={"sub": cursor},
            backlog_quotas=SimpleNamespace(is_exceeded=is_exceeded),
        )
        topic = SimpleNamespace(
            name=TopicName.parse(name),
            managed_ledger=ledger,
            cursor_advances=Advances(),
            deduplication=None,
            hold_producers=found.append,
        )
        limits = BacklogLimits(lambda: [topic], BrokerSettings(backlog_quota_bytes=1, backlog_quota_s=0))
        await limits.expire(topic)
        await limits.check_quota(topic)
        return len(passed), found

    count, policies = run(main())
    assert count == looked_at
    assert [each and each.value for each in policies] == [held and "producer_request_hold"]
