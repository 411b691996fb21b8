"""Lookups over HTTP, at Pulsar's paths, for clients whose service URL begins with `http`.

They are answered as those of the binary protocol are, and do the same: a bundle that nobody serves gets an owner. A
broker that does not serve the topic names the one that does, or sends the client to the one that will.
"""

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.lookup.topic_lookup import check_listener
from mledger.broker.refusals import refusal_of
from mledger.broker.security.permissions import TopicOperation
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, Route
from mledger.pb import PulsarApi_pb2 as pb

LOOKUP = "/lookup/v2/topic"
_BUNDLE = "/bundle"
_BUNDLE_DEPTH = f"{LOOKUP}/persistent/tenant/namespace/topic{_BUNDLE}".count("/")
_JSON = "application/json"
_STATUS = {
    pb.TopicNotFound: HTTPStatus.NOT_FOUND,
    pb.InvalidTopicName: HTTPStatus.PRECONDITION_FAILED,
    pb.NotAllowedError: HTTPStatus.METHOD_NOT_ALLOWED,
    pb.AuthenticationError: HTTPStatus.UNAUTHORIZED,
    pb.AuthorizationError: HTTPStatus.UNAUTHORIZED,
}
"""By the code of a refusal; any other is 503, with which clients try again."""


class HttpLookup:
    """Answers at `broker`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker

    @property
    def below(self) -> dict[str, Route]:
        """The paths below which everything is answered."""
        return {LOOKUP: self.owner}

    async def owner(self, asked: HttpRequest) -> HttpResponse:
        """`/lookup/v2/topic/persistent/TENANT/NAMESPACE/TOPIC`: the service URL of the broker that serves it."""
        if asked.path.count("/") == _BUNDLE_DEPTH and asked.path.endswith(_BUNDLE):
            return await self.bundle(asked)
        owners, authoritative = self._broker.owners, asked.query.get("authoritative") == "true"
        try:
            topic = topic_at(asked.path.removeprefix(LOOKUP))
            security = self._broker.security
            principal = await security.of_http(asked.headers, asked.certificate)
            await security.allow(principal, TopicOperation.LOOKUP, topic)
            check_listener(asked.query.get("listenerName") or asked.headers.get("x-pulsar-listenername", ""))
            found = await owners.find(topic, authoritative=authoritative)
            addresses = (report.address for report in await owners.roster.reports())
            owner = next((each for each in addresses if each.urls.any == found.urls.any), None)
            web_url, web_url_tls = ("", "") if owner is None else (owner.web_url, owner.web_url_tls)
            if not found.redirect:
                # the client of C++ and Python ends the process if a URL for TLS is missing
                url, url_tls = found.urls
                own = {"brokerUrl": url, "brokerUrlTls": url_tls, "nativeUrl": url}
                return json_answer({**own, "httpUrl": web_url, "httpUrlTls": web_url_tls})
            if location := web_url_tls if asked.encrypted else web_url:
                location = f"{location}{asked.path}?authoritative=true"
                return HttpResponse(b"", status=HTTPStatus.TEMPORARY_REDIRECT, location=location)
        except MledgerError as error:
            return refused(error)
        return refusal_answer(
            HTTPStatus.SERVICE_UNAVAILABLE, f"the broker at {found.urls.any} serves no HTTP: use its own URL"
        )

    async def bundle(self, asked: HttpRequest) -> HttpResponse:
        """`/lookup/v2/topic/persistent/TENANT/NAMESPACE/TOPIC/bundle`: the name of the topic's bundle."""
        try:
            topic = topic_at(asked.path.removeprefix(LOOKUP).removesuffix(_BUNDLE))
            security = self._broker.security
            await security.allow(await security.of_http(asked.headers, asked.certificate), TopicOperation.LOOKUP, topic)
            return HttpResponse((await self._broker.owners.bundle(topic)).encode(), "text/plain")
        except MledgerError as error:
            return refused(error)


def topic_at(path: str) -> TopicName:
    """The topic that `/persistent/TENANT/NAMESPACE/TOPIC` names. InvalidName."""
    domain, _, rest = path.strip("/").partition("/")
    return TopicName.parse_served(f"{domain}://{'/'.join(unquote(each) for each in rest.split('/'))}")


def json_answer(content: Any) -> HttpResponse:
    """JSON."""
    return HttpResponse(json.dumps(content).encode() + b"\n", _JSON)


def refused(error: MledgerError) -> HttpResponse:
    """An error, with the status that tells clients whether to try again."""
    refusal = refusal_of(error)
    return refusal_answer(_STATUS.get(refusal.code, HTTPStatus.SERVICE_UNAVAILABLE), str(refusal))


def refusal_answer(status: HTTPStatus, reason: str) -> HttpResponse:
    """An error as Pulsar's admin API gives it."""
    return HttpResponse(json.dumps({"reason": reason}).encode() + b"\n", _JSON, status)
