"""A topic's live figures, from the admin API of the broker that serves it: ours, or Java Pulsar's.

Asking changes nothing at our brokers, which answer for topics that are open there. Java's broker opens
a topic of its bundles to answer.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit

from mledger.admin.broker_access import BrokerAccess
from mledger.admin.partitions import no_such_topic, read_partitioned
from mledger.errors import BrokerUnavailable, TopicNotServed
from mledger.ledgers.bundles import CHANNEL_ADDRESS, LIVE_BROKERS, web_url_of
from mledger.ledgers.ownership import find_broker
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.store import MetadataReader

ANSWER_TIMEOUT_S = 30.0
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: ": give it a valid token of a role that may do that "
    "(--token-file, MLEDGER_TOKEN_FILE, MLEDGER_TOKEN)",
    HTTPStatus.FORBIDDEN: ": the token's role may not do that",
}
_RANGE = re.compile(r"\((-?\d+):(-?\d+)(?:\.\.|‥)(-?\d+):(-?\d+)\]")


async def find_web_url(reader: MetadataReader, topic: TopicName, *, encrypted: bool = False) -> str:
    """The HTTP address of the broker that serves the topic; the encrypted one if it has one and `encrypted`.

    Raises:
        TopicNotFound: there is no such topic.
        TopicNotServed: no broker serves it.
        BrokerUnavailable: the broker says no address for HTTP.
    """
    partitioned = not topic.is_persistent and await read_partitioned(reader, topic) is not None
    if partitioned or (topic.is_persistent and await reader.exists(topic.managed_ledger_path) is None):
        raise await no_such_topic(reader, topic)
    owner = await find_broker(reader, topic.managed_ledger_name)
    if owner is None:
        raise TopicNotServed(f"no broker serves {topic}: one does as soon as a client uses it")
    paths = [owner.path]
    if owner.address.startswith(CHANNEL_ADDRESS):
        paths.append(f"{LIVE_BROKERS}/{owner.address.removeprefix(CHANNEL_ADDRESS)}")
    for node in await reader.get_many(paths):
        if node is not None and (url := web_url_of(node.data, encrypted=encrypted)):
            return url
    raise BrokerUnavailable(f"{owner.detail}, which serves no HTTP: start it with --metrics-port, as `mledger up` does")


async def read_served(reader: MetadataReader, topic: TopicName, what: str, access: BrokerAccess) -> dict[str, Any]:
    """The answer of the topic's broker about `what`: stats, internalStats.

    Raises:
        TopicNotFound, TopicNotServed: there is no such topic, or no broker has it open.
        BrokerUnavailable: the broker does not answer, or not to this client.
        InvalidSetting: the authorities that `access` names cannot be read.
    """
    base = await find_web_url(reader, topic, encrypted=access.trust_certs is not None)
    name = f"{topic.namespace_name}/{quote(topic.local_name, safe='')}"
    url = f"{base.rstrip('/')}/admin/v2/{topic.domain}/{name}/{what}?open=false"
    return await asyncio.to_thread(_get, url, topic, access)


def _get(url: str, topic: TopicName, access: BrokerAccess) -> dict[str, Any]:
    where = urlsplit(url).netloc
    opener = access.opener()
    try:
        with opener.open(access.request(url), timeout=ANSWER_TIMEOUT_S) as answer:
            found = json.load(answer)
    except HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            raise TopicNotServed(f"the broker at {where} does not have {topic} open: no client uses it now") from None
        hint = _HINTS.get(error.code, "")
        raise BrokerUnavailable(
            f"the broker at {where} answers {error.code} {error.reason} about {topic}{hint}"
        ) from None
    except (URLError, OSError, ValueError) as error:
        hint = ": --trust-certs names its authority" if "CERTIFICATE_VERIFY_FAILED" in str(error) else ""
        raise BrokerUnavailable(f"the broker at {where} gives no answer about {topic}: {error}{hint}") from None
    if not isinstance(found, dict):
        raise BrokerUnavailable(f"the broker at {where} answers about {topic} with something else than an object")
    return found


def acknowledged_in(text: str) -> tuple[PositionRange, ...]:
    """The ranges of `individuallyDeletedMessages`, in order."""
    return tuple(
        PositionRange(Position(int(each[1]), int(each[2])), Position(int(each[3]), int(each[4])))
        for each in _RANGE.finditer(text)
    )


def plan_backlog(
    positions: Sequence[Position], mark_delete: Position, acknowledged: Sequence[PositionRange]
) -> Iterator[Position]:
    """Those of `positions`, which rise, that are not acknowledged."""
    ranges = iter(acknowledged)
    current = next(ranges, None)
    for position in positions:
        if position <= mark_delete:
            continue
        while current is not None and current.upper < position:
            current = next(ranges, None)
        if current is None or position <= current.lower:
            yield position
