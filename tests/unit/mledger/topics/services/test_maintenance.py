"""One timer rings the alarms of many topics."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from mledger.topics.services.maintenance import BEGIN_AT_ONCE, SIFT_FROM, Maintenance
from tests.support.aio import run
from tests.support.clock import Clock


def with_upkeep(test):
    """Turn a coroutine function into a test with a clock, a Maintenance on it, and a list that alarms ring into."""

    def call():
        async def main():
            clock = Clock()
            maintenance = Maintenance(clock)
            await test(clock, maintenance, [])
            maintenance.stop()

        run(main())

    call.__name__ = test.__name__
    return call


@with_upkeep
async def test_alarms_ring_when_the_clock_reaches_them(clock, maintenance, rung):
    for delay in (30, 10, 20):
        maintenance.alarm(lambda delay=delay: rung.append(delay)).set(clock.ms + delay)
    assert maintenance.run_due() == 0
    clock.ms += 20
    assert maintenance.run_due() == 2
    assert rung == [10, 20]
    clock.ms += 10
    assert maintenance.run_due() == 1
    assert maintenance.run_due() == 0


@with_upkeep
async def test_a_reset_alarm_rings_once_at_its_new_time(clock, maintenance, rung):
    alarm = maintenance.alarm(lambda: rung.append(clock.ms))
    start = clock.ms
    alarm.set(start + 10)
    alarm.set(start + 30)
    alarm.set(start + 20)
    for clock.ms in range(start, start + 40):
        maintenance.run_due()
    assert rung == [start + 20]


@with_upkeep
async def test_a_cancelled_alarm_is_silent_until_set_again(clock, maintenance, rung):
    alarm = maintenance.alarm(lambda: rung.append(clock.ms))
    alarm.set(clock.ms)
    alarm.cancel()
    assert maintenance.run_due() == 0
    alarm.set(clock.ms)
    assert maintenance.run_due() == 1


@with_upkeep
async def test_a_clock_that_is_set_back_makes_no_alarm_wait_for_it(clock, maintenance, rung):
    later, sooner = maintenance.alarm(lambda: rung.append("later")), maintenance.alarm(lambda: rung.append("sooner"))
    later.set(clock.ms + 120_000)
    sooner.set(clock.ms + 60_000)
    clock.ms -= 365 * 86_400_000
    assert maintenance.run_due() == 0
    sooner.set(clock.ms + 90_000)
    clock.ms += 90_000
    assert maintenance.run_due() == 1
    clock.ms += 30_000
    assert maintenance.run_due() == 1
    assert rung == ["sooner", "later"]


@with_upkeep
async def test_an_alarm_may_set_itself_again_as_it_rings(clock, maintenance, rung):
    alarm = maintenance.alarm(lambda: (rung.append(clock.ms), alarm.set(clock.ms + 10)))
    alarm.set(clock.ms)
    assert maintenance.run_due() == 1
    clock.ms += 10
    assert maintenance.run_due() == 1


@with_upkeep
async def test_the_timer_rings_by_itself_and_starts_a_bounded_number_at_once(clock, maintenance, rung):
    done = asyncio.Event()
    started = []

    def ring():
        rung.append(asyncio.get_running_loop().time())
        if len(rung) == 2 * BEGIN_AT_ONCE + 1:
            done.set()

    for _ in range(2 * BEGIN_AT_ONCE + 1):
        maintenance.alarm(ring).set(clock.ms + 1)
    clock.ms += 1
    await done.wait()
    started = sorted(set(rung))
    assert all(rung.count(at) <= BEGIN_AT_ONCE for at in started)


def test_many_alarms_share_one_timer_of_the_loop_and_no_task():
    async def main():
        loop = asyncio.get_running_loop()
        clock, before = Clock(), len(loop._scheduled)
        maintenance = Maintenance(clock)
        for delay in range(500, 0, -1):
            maintenance.alarm(lambda: None).set(clock.ms + 1000 * delay)
        assert len([handle for handle in loop._scheduled if not handle.cancelled()]) - before == 1
        assert len(asyncio.all_tasks()) == 1
        maintenance.stop()

    asyncio.run(main())  # not on uvloop, which does not show its timers


@with_upkeep
async def test_resetting_an_alarm_often_takes_no_more_memory(clock, maintenance, rung):
    alarm = maintenance.alarm(rung.append)
    for turn in range(10 * SIFT_FROM):
        alarm.set(clock.ms + 1000 + turn)
    assert len(maintenance._heap) <= SIFT_FROM


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=60), st.integers(0, 60))
def test_only_the_last_setting_of_each_alarm_counts(settings, until):
    async def main():
        clock, rung = Clock(), []
        maintenance = Maintenance(clock)
        alarms = [maintenance.alarm(lambda number=number: rung.append(number)) for number in range(5)]
        for number, delay in settings:
            alarms[number].set(clock.ms + delay)
        clock.ms += until
        maintenance.run_due()
        due = {number: delay for number, delay in settings if delay is not None}
        assert sorted(rung) == sorted(number for number, delay in due.items() if delay <= until)
        maintenance.stop()

    run(main())


@with_upkeep
async def test_an_alarm_that_fails_does_not_stop_the_others(clock, maintenance, rung):
    troubles = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context["exception"]))
    failure = ValueError("this topic is broken")

    def fail():
        raise failure

    maintenance.alarm(fail).set(clock.ms + 10)
    maintenance.alarm(lambda: rung.append("other")).set(clock.ms + 20)
    clock.ms += 30
    assert maintenance.run_due() == 2
    assert (rung, troubles) == (["other"], [failure])
