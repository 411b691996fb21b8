"""How the subscriptions of a topic share the loop with everybody else."""

import asyncio
from types import SimpleNamespace

from mledger.broker.topics.subscriptions.topic_subscriptions import IN_A_ROW, TopicSubscriptions
from tests.support.aio import run


def test_other_work_of_the_loop_does_not_wait_for_very_many_subscriptions():
    async def main():
        subscriptions, ran = TopicSubscriptions(SimpleNamespace(name="topic")), []
        for number in range(3 * IN_A_ROW):
            subscriptions._by_name[str(number)] = SimpleNamespace(run=lambda number=number: ran.append(number))
        subscriptions.run()
        assert len(ran) == IN_A_ROW
        subscriptions.run()  # more was published meanwhile
        for _ in range(10):
            await asyncio.sleep(0)
        assert ran == [*range(3 * IN_A_ROW)] * 2

    run(main())


def test_a_subscription_that_fails_keeps_no_other_one_from_what_was_published():
    async def main():
        failures, ran = [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def fail():
            raise KeyError("nobody expected it")

        subscriptions = TopicSubscriptions(SimpleNamespace(name="topic"))
        subscriptions._by_name |= {
            "broken": SimpleNamespace(run=fail),
            "sound": SimpleNamespace(run=lambda: ran.append("sound")),
        }
        asyncio.get_running_loop().call_soon(subscriptions.run)
        for _ in range(5):
            await asyncio.sleep(0)
        assert ran == ["sound"]
        assert [type(each) for each in failures] == [KeyError]

    run(main())
