"""With `applied=true`, GET of a topic's policy shows what holds for it."""

import pytest

from mledger.broker.admin_rest.topics.applied_policies import APPLIED_POLICIES
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace_at


@pytest.fixture
def namespace(broker_url, topic):
    """A namespace of its own."""
    return create_namespace_at(broker_url, f"public/{topic.rsplit('/', 1)[1]}")


@pytest.mark.parametrize(
    ("own", "of_namespace", "key", "values"),
    [
        ("maxProducers", "maxProducersPerTopic", "maxProducersPerTopic", (9, 8, 7, 6)),
        ("messageTTL?messageTTL=6", "messageTTL", "ttlDurationDefaultInSeconds", (9, 8, 7, 6)),
    ],
)
def test_the_nearest_level_that_sets_a_policy_is_shown(broker_url, namespace, own, of_namespace, key, values):
    setting, namespaces, everywhere, topics = values

    async def main():
        async with web_served(broker_url, f"{key}={setting}") as broker:
            base, path = f"persistent/{namespace}/t", own.partition("?")[0]
            everywhere_path = own.replace("=6", "=7") + ("&" if "?" in own else "?") + "isGlobal=true"
            await broker.done("PUT", base)
            shown = [await broker.get(f"{base}/{path}?applied=true")]
            await broker.done("POST", f"namespaces/{namespace}/{of_namespace}", namespaces)
            shown.append(await broker.get(f"{base}/{path}?applied=true"))
            await broker.done("POST", f"{base}/{everywhere_path}", everywhere)
            shown.append(await broker.get(f"{base}/{path}?applied=true"))
            assert await broker.get(f"{base}/{path}") is None
            await broker.done("POST", f"{base}/{own}", topics)
            shown.append(await broker.get(f"{base}/{path}?applied=true"))
            assert shown == [setting, namespaces, everywhere, topics]

    run(main())


def test_what_holds_for_a_subscription_is_its_own_rate_else_that_of_all(broker_url, namespace):
    def rate(messages):
        return {
            "dispatchThrottlingRateInMsg": messages,
            "dispatchThrottlingRateInByte": 0,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 1,
        }

    async def main():
        async with web_served(broker_url, "dispatchThrottlingRatePerSubscriptionInMsg=9") as broker:
            base = f"persistent/{namespace}/t"
            await broker.done("PUT", base)
            one = f"{base}/sub/dispatchRate"
            assert await broker.get(f"{one}?applied=true") == rate(9)
            for messages, path in ((8, f"{base}/subscriptionDispatchRate"), (7, f"{one}?isGlobal=true"), (6, one)):
                assert await broker.get(one) is None
                await broker.done("POST", path, rate(messages))
                assert await broker.get(f"{one}?applied=true") == rate(messages)
            assert await broker.get(one) == rate(6)
            assert await broker.get(f"{one}?isGlobal=true") == rate(7)
            assert await broker.get(f"{base}/other/dispatchRate?applied=true") == rate(8)

    run(main())


def test_every_policy_has_a_value_in_force(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            base = f"persistent/{namespace}/t"
            await broker.done("PUT", base)
            found = {path: await broker.get(f"{base}/{path}?applied=true") for path in APPLIED_POLICIES}
            assert None not in found.values()
            assert found["schemaCompatibilityStrategy"] == "FULL"
            assert found["inactiveTopicPolicies"]["deleteWhileInactive"] is False
            quotas = await broker.get(f"{base}/backlogQuotaMap?applied=true")
            assert {kind: quota["limitSize"] for kind, quota in quotas.items()} == {
                "destination_storage": -1,
                "message_age": -1,
            }
            await broker.done("PUT", f"namespaces/{namespace}/schemaCompatibilityStrategy", "BACKWARD")
            assert await broker.get(f"{base}/schemaCompatibilityStrategy?applied=true") == "BACKWARD"
            await broker.done("PUT", f"{base}/schemaCompatibilityStrategy", "FORWARD")
            await broker.done("POST", f"{base}/schemaValidationEnforced", True)
            assert await broker.get(f"{base}/schemaValidationEnforced?applied=true") is True

    run(main())
