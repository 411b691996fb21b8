"""Requests of the admin REST API and their answers, as values: no socket and no HTTP library."""

import enum
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import PERSISTENT, TopicName

ADMIN = "/admin/v2"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
JSON = "application/json"


class Access(enum.Enum):
    """Who may do what a request asks, in the words of Pulsar's authorization."""

    ANYONE = "anyone"
    SUPER_USER = "super-user"
    TENANT_ADMIN = "tenant-admin"
    NAMESPACE_ADMIN = "namespace-admin"
    """As TENANT_ADMIN, where Pulsar asks for an operation of the namespace or for a policy: it refuses with 403."""
    LOOKUP = "lookup"
    PRODUCE = "produce"
    CONSUME = "consume"


class AdminRequest(Struct, frozen=True):
    """A request: the path still encoded and without a slash at its end, headers by lower-case name.

    `certificate` is the client's, verified, as `getpeercert` gives it; None if it has shown none.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    encrypted: bool = False
    certificate: Mapping[str, Any] | None = None

    def flag(self, name: str, default: bool = False) -> bool:
        """A query parameter that is true or false."""
        found = self.query.get(name)
        return default if found is None else found.lower() == "true"

    def json(self, *, required: bool = False) -> Any:
        """The body, None if there is none. AdminRefusal if it is not JSON, or if one is `required`."""
        if required and not self.body.strip():
            raise AdminRefusal(HTTPStatus.BAD_REQUEST, "The request entity cannot be empty.")
        if not self.body.strip():
            return None
        try:
            text = self.body.decode(json.detect_encoding(self.body))
            found = json.loads(text, parse_constant=_finite, parse_float=_finite)
            if _SURROGATE.search(text):  # half a pair is no character: no record and no answer could have it
                json.dumps(found, ensure_ascii=False).encode()
            return found
        except (ValueError, RecursionError) as error:
            raise AdminRefusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None


class AdminAnswer(Struct, frozen=True):
    """The answer to a request."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """The body as JSON. AdminRefusal if another broker sent something else."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise AdminRefusal(HTTPStatus.BAD_GATEWAY, f"a broker's answer is not JSON: {error}") from None


class AdminOperation(Struct, frozen=True):
    """What a request does and to what, for authorization. `name` is its method and the pattern of its path.

    `domain` is the topic's: the pattern decides it, since a path can spell it in several ways.
    """

    name: str
    access: Access
    tenant: str = ""
    namespace: str = ""
    topic: str = ""
    subscription: str = ""
    domain: str = PERSISTENT

    @property
    def topic_name(self) -> TopicName:
        """The topic: what is authorized and what is acted on. InvalidName."""
        return TopicName(self.tenant, self.namespace, self.topic, domain=self.domain)


class AdminCall(Struct, frozen=True):
    """A request that has a route; `values` are what the path has where its pattern has names."""

    request: AdminRequest
    operation: AdminOperation
    values: Mapping[str, str]

    @property
    def namespace(self) -> str:
        """tenant/namespace of the path."""
        return f"{self.values['tenant']}/{self.values['namespace']}"

    def at(self, path: str) -> "AdminCall":
        """The same call as if its request had this path."""
        return replace(self, request=replace(self.request, path=path))

    @property
    def topic(self) -> TopicName:
        """The topic of the path. InvalidName, also for a name with a slash: as text it is one of another namespace."""
        topic = self.operation.topic_name
        if not topic.local_name.strip():
            raise InvalidName("Topic name is not valid")
        if "/" in topic.local_name:
            raise InvalidName(f"{topic.local_name!r} is not a topic's name: a name in {self.namespace} has no slash")
        return topic


AnswerRequest = Callable[[AdminRequest], Awaitable[AdminAnswer]]
Action = Callable[[AdminCall], Awaitable[AdminAnswer]]

NO_CONTENT = AdminAnswer(HTTPStatus.NO_CONTENT)
DONE = AdminAnswer()
"""Pulsar answers 200 without a body where it has nothing to say."""


def _finite(text: str) -> float:
    """A number that other programs read, too: Java's refuse NaN and Infinity. ValueError."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number that JSON has")
    return number


def json_answer(content: Any, status: HTTPStatus = HTTPStatus.OK) -> AdminAnswer:
    """JSON, as Pulsar writes it: without spaces. None is an answer without a body."""
    if content is None:
        return AdminAnswer(status)
    return AdminAnswer(status, json.dumps(content, separators=(",", ":")).encode())


def redirect_to(url: str) -> AdminAnswer:
    """Another broker has what the request is about."""
    return AdminAnswer(HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": url})


def plain(element: str) -> str:
    """An element of a path, decoded. AdminRefusal if it is not UTF-8, or has a NUL, which Pulsar takes in no path."""
    try:
        decoded = unquote(element, errors="strict")
    except UnicodeDecodeError:
        raise AdminRefusal(HTTPStatus.BAD_REQUEST, f"{element!r} is not UTF-8, percent-encoded") from None
    if "\0" in decoded:
        raise AdminRefusal(HTTPStatus.BAD_REQUEST, f"{element!r} has the character NUL: no name has it")
    return decoded


def check_entity(kind: str, name: str) -> str:
    """`name` if a tenant, namespace or cluster (`kind`) can be called so, else AdminRefusal."""
    try:
        TopicName(name, "any", "any")
    except InvalidName:
        raise AdminRefusal(HTTPStatus.PRECONDITION_FAILED, f"{kind} name is not valid") from None
    return name
