"""Requests for all partitions of a topic."""

import asyncio

from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error, plan_partition_request
from mledger.broker.admin_rest.requests import DONE, NO_CONTENT, AdminAnswer, AdminRequest
from mledger.metastore.records.paths import TopicName

TOPIC = TopicName.parse("persistent://t/n/a b")


def test_a_partition_is_asked_the_same_without_the_flag_of_the_first_broker():
    query = {"authoritative": "true", "force": "true"}
    request = AdminRequest("POST", "/admin/v2/persistent/t/n/a%20b/subscription/s/skip_all", query, body=b"1")
    asked = plan_partition_request(request, TOPIC.partition(2))
    assert asked.path == "/admin/v2/persistent/t/n/a%20b-partition-2/subscription/s/skip_all"
    assert (asked.query, asked.body, asked.method) == ({"force": "true"}, b"1", "POST")


def test_one_serious_error_is_the_answer_and_an_accepted_one_only_if_all_have_it():
    gone, broken = AdminAnswer(404), AdminAnswer(500)
    assert plan_first_error([DONE, NO_CONTENT]) is None
    assert plan_first_error([DONE, gone, broken], accepted=(404,)) is broken
    assert plan_first_error([DONE, gone], accepted=(404,)) is None
    assert plan_first_error([gone, gone], accepted=(404,)) is gone


def test_requests_for_this_broker_are_answered_in_order():
    async def answer(request):
        await asyncio.sleep(0)
        return AdminAnswer(body=request.path.encode())

    async def main():
        requests = [AdminRequest("GET", f"/{index}") for index in range(40)]
        return await FanOut(answer).ask_all(requests)

    assert [each.body for each in asyncio.run(main())] == [f"/{index}".encode() for index in range(40)]
