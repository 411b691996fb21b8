"""Requests that one request becomes: to the broker of each partition of a topic, here or elsewhere."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import AdminAnswer, AdminCall, AdminRequest, AnswerRequest
from mledger.broker.security.broker_security import BrokerSecurity
from mledger.broker.security.peer_settings import PeerSettings
from mledger.metastore.records.paths import TopicName

if TYPE_CHECKING:
    from aiohttp import StreamReader

AT_ONCE = 16
MOST_HOPS = 5
LARGEST_ANSWER = 64 << 20
LARGEST_HEADER = 16 << 20
"""Of an answer: properties of a message are one, and as large as entries may be."""
ANSWERED_WITHIN_S = 30.0
_TOPIC_ELEMENT = 6
_FORWARDED = ("authorization", "content-type", "x-original-principal")
_PASSED = ("location", "x-pulsar-")
"""Headers of answers: where to ask, and the metadata of a message."""


def plan_partition_request(request: AdminRequest, partition: TopicName) -> AdminRequest:
    """The same request for a partition of its topic."""
    elements = request.path.split("/")
    elements[_TOPIC_ELEMENT] = quote(partition.local_name, safe="")
    query = {name: value for name, value in request.query.items() if name != "authoritative"}
    return replace(request, path="/".join(elements), query=query)


def plan_first_error(answers: Sequence[AdminAnswer], accepted: Sequence[HTTPStatus] = ()) -> AdminAnswer | None:
    """The answer that says that a request to all partitions failed, None if it did not.

    A partition may answer with one of `accepted`, unless all do.
    """
    failed = [each for each in answers if each.status >= HTTPStatus.BAD_REQUEST]
    serious = [each for each in failed if each.status not in accepted]
    if serious:
        return serious[0]
    return failed[0] if failed and len(failed) == len(answers) else None


def plan_request_for(request: AdminRequest, method: str, path: str, **parts: Any) -> AdminRequest:
    """Another request of the same client: with its credentials, but not with its query and its body."""
    return replace(request, **({"method": method, "path": path, "query": {}, "body": b""} | parts))


def plan_headers(request: AdminRequest, peers: PeerSettings) -> dict[str, str]:
    """What is sent on of the headers: the client's credentials, or without such this broker's own. InvalidSetting."""
    headers = {name: value for name in _FORWARDED if (value := request.headers.get(name))}
    if "authorization" in headers or not (peers.token or peers.certificate):
        return headers
    headers.pop("x-original-principal", None)
    return {**headers, **peers.headers()}


class FanOut:
    """Sends requests on; `answer` answers those for this broker, `security` has its own credentials."""

    def __init__(self, answer: AnswerRequest, security: BrokerSecurity) -> None:
        self._answer = answer
        self._security = security

    async def ask(self, request: AdminRequest) -> AdminAnswer:
        """The answer of the broker that serves what the request is about."""
        answer = await self._answer(request)
        for _ in range(MOST_HOPS):
            if answer.status is not HTTPStatus.TEMPORARY_REDIRECT:
                return answer
            answer = await self._ask_at(answer.headers["Location"], request)
        raise AdminRefusal(HTTPStatus.SERVICE_UNAVAILABLE, f"the owner of {request.path} keeps changing: try again")

    async def ask_all(self, requests: Sequence[AdminRequest]) -> list[AdminAnswer]:
        """The answers to several requests, some at a time."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def ask(request: AdminRequest) -> AdminAnswer:
            async with limit:
                return await self.ask(request)

        return await asyncio.gather(*map(ask, requests))

    async def ask_partitions(self, call: AdminCall, topic: TopicName, partitions: int) -> list[AdminAnswer]:
        """The answers of all partitions to a request for the whole topic, in order."""
        requests = [plan_partition_request(call.request, topic.partition(index)) for index in range(partitions)]
        return await self.ask_all(requests)

    async def _ask_at(self, location: str, request: AdminRequest) -> AdminAnswer:
        from aiohttp import ClientError, ClientSession, ClientTimeout  # the server has loaded it by now
        from yarl import URL

        certificates = self._security.peer_certificates
        headers = plan_headers(request, self._security.settings.peers)
        try:
            async with (
                ClientSession(
                    timeout=ClientTimeout(ANSWERED_WITHIN_S), auto_decompress=False, max_field_size=LARGEST_HEADER
                ) as session,
                session.request(
                    request.method,
                    URL(location, encoded=True),
                    data=request.body or None,
                    headers=headers,
                    allow_redirects=False,
                    ssl=True if certificates is None else certificates.current(),
                ) as found,
            ):
                body = await _whole(found.content)
                more = {name: value for name, value in found.headers.items() if name.lower().startswith(_PASSED)}
                content_type = found.headers.get("Content-Type", "")
                return AdminAnswer(HTTPStatus(found.status), body, content_type, more)
        except (ClientError, TimeoutError, ValueError) as error:
            where = urlsplit(location).netloc
            raise AdminRefusal(
                HTTPStatus.SERVICE_UNAVAILABLE, f"the broker at {where} gives no answer: {error or 'time-out'}"
            ) from None


async def _whole(content: "StreamReader") -> bytes:
    """All of an answer. ValueError if it is too large."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise ValueError(f"it has more than {LARGEST_ANSWER} bytes")
    return bytes(body)
