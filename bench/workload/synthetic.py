"""A synthetic cluster's metadata as nodes, in the order of a snapshot file: each before its children. Pure and seeded.

It has nodes of all kinds: topics with the ledgers in their lists, cursors with and without cursor ledgers and holes,
ledgers in all three formats, records that are compressed, of very old clusters, or damaged, partitioned topics, marks
of under-replicated ledgers, bookies, schemas, brokers with their bundles, and nodes that no table uses.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, groupby

from google.protobuf import text_format

from mledger.broker.lookup.broker_records import (
    BrokerAddress,
    BrokerLoad,
    encode_bundle_owner,
    encode_report,
    report_content,
)
from mledger.broker.lookup.bundle_ranges import bundle_names, plan_boundaries
from mledger.metastore.cluster.bookies import encode_registration
from mledger.metastore.cluster.cookies import Cookie, encode_cookie
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import encode_name, ledger_path, underreplicated_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import ManagedLedgerInfo as InfoMessage
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaIndexEntry, SchemaLocator, SchemaPosition
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    BatchDeletion,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
)

START_MS = 1_760_000_000_000
BOOKIES = 24
BROKERS = 3
BUNDLES = 4
"""Of each namespace."""
FIRST_LEDGER = 17
NAMESPACES_A_TENANT = 10
TOPICS_A_NAMESPACE = 500
COMPRESSIONS = ("LZ4", "ZLIB", "ZSTD", "SNAPPY")
DAMAGED = b"\xff\x01 no record"
DAMAGED_EVERY, DAMAGED_FIRST = 5000, 7
"""Which records of each kind do not decode: the eighth, and one of so many."""

HASH_BYTES = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a cluster is to be; its other nodes go with these. Ledgers are those of topics and of cursors."""

    topics: int = 100_000
    cursors: int = 300_000
    ledgers: int = 500_000


@dataclass(frozen=True, slots=True)
class Made:
    """A node; `session` is that of an ephemeral one, `children` how many it was given."""

    path: str
    data: bytes = b""
    version: int = 0
    session: int = 0


@dataclass(frozen=True, slots=True)
class _Topic:
    namespace: str
    name: str
    ledgers: tuple[int, ...]
    cursors: tuple[tuple[str, int], ...]
    """Names, each with its cursor ledger, -1 for none."""

    @property
    def managed_ledger(self) -> str:
        return f"{self.namespace}/persistent/{encode_name(self.name)}"


def nodes(sizes: Sizes, seed: int = 1) -> Iterator[Made]:
    """Every node of the cluster but ZooKeeper's own and the root."""
    rng = random.Random(seed)
    topics = _plan(sizes, rng)
    yield from _admin(topics, rng)
    yield Made(
        "/bookies", json.dumps({"default": {each: {"rack": f"/rack-{at % 3}"} for at, each in _bookies()}}).encode()
    )
    yield from _bookkeeper(topics, rng)
    yield from _managed_ledgers(topics, rng)
    yield from _schemas(topics, rng)
    yield from _brokers(topics)


def bookie_session(index: int) -> int:
    """The session of a bookie's registration."""
    return 0x1000_0000_0000_0001 + index


def broker_session(index: int) -> int:
    """The session of a broker's own nodes."""
    return 0x1000_0000_0001_0001 + index


def _plan(sizes: Sizes, rng: random.Random) -> list[_Topic]:
    """All topics by namespace, with ids of ledgers as one counter gives them over time: gaps where others were."""
    owners = _spread(sizes.cursors, sizes.topics, rng)
    with_ledger = min(sizes.cursors // 2, max(0, sizes.ledgers - sizes.topics))
    has_ledger = [True] * with_ledger + [False] * (sizes.cursors - with_ledger)
    rng.shuffle(has_ledger)
    lists = _spread(sizes.ledgers - with_ledger, sizes.topics, rng)
    ids = iter(_ids(sizes.ledgers, rng))
    topics, cursor = [], 0
    for index in range(sizes.topics):
        namespace, name = _named(index)
        ledgers = tuple(sorted(next(ids) for _ in range(lists[index])))
        cursors = []
        for number in range(owners[index]):
            cursors.append((f"subscription-{number}", next(ids) if has_ledger[cursor] else -1))
            cursor += 1
        topics.append(_Topic(namespace, name, ledgers, tuple(cursors)))
    return topics


def _named(index: int) -> tuple[str, str]:
    group, place = divmod(index, TOPICS_A_NAMESPACE)
    tenant, namespace = divmod(group, NAMESPACES_A_TENANT)
    if place % 5 == 0:
        return f"tenant-{tenant:03d}/ns-{namespace}", f"orders/région {place} äß"
    if place % 5 == 1:
        return f"tenant-{tenant:03d}/ns-{namespace}", f"events-{place:05d}"
    return f"tenant-{tenant:03d}/ns-{namespace}", f"clicks-{place // 100}-partition-{place}"


def _spread(count: int, among: int, rng: random.Random) -> list[int]:
    """`count` things given to `among`: each gets its share, then some give to others."""
    shares = [count // among + (index < count % among) for index in range(among)]
    for _ in range(among):
        giver, taker = rng.randrange(among), rng.randrange(among)
        if shares[giver] > 1:
            shares[giver] -= 1
            shares[taker] += 1
    return shares


def _ids(count: int, rng: random.Random) -> list[int]:
    """Ids in no order: one in five was deleted; the last two hundredth has ids of 64 bits."""
    highest = FIRST_LEDGER + count + count // 5
    found = rng.sample(range(FIRST_LEDGER, highest), count)
    for at in range(0, count, 200):
        found[at] += 1 << 32
    return found


def _bookies() -> Iterator[tuple[int, str]]:
    for index in range(BOOKIES):
        yield index, f"10.0.{index // 10}.{index % 10}:3181"


def _damaged(number: int) -> bool:
    return number % DAMAGED_EVERY == DAMAGED_FIRST


def _folders(paths: Iterable[str], seen: set[str]) -> Iterator[Made]:
    """Nodes without data for what is above these paths and was not yet there."""
    for path in paths:
        at = path.find("/", 1)
        while at > 0:
            if path[:at] not in seen:
                seen.add(path[:at])
                yield Made(path[:at])
            at = path.find("/", at + 1)


def _admin(topics: list[_Topic], rng: random.Random) -> Iterator[Made]:
    yield Made("/admin")
    yield Made("/admin/partitioned-topics")
    seen = {"/admin", "/admin/partitioned-topics"}
    numbers = count()
    for topic in topics:
        base, found, _ = topic.name.rpartition("-partition-")
        path = f"/admin/partitioned-topics/{topic.namespace}/persistent/{encode_name(base)}"
        if found and path not in seen:
            seen.add(path)
            yield from _folders([path], seen)
            record = b"{" if _damaged(next(numbers)) else b'{"partitions":100,"deleted":false}'
            yield Made(path, record, rng.randrange(3))
    yield Made("/admin/policies")
    seen.add("/admin/policies")
    for namespace, _ in groupby(topics, lambda topic: topic.namespace):
        path = f"/admin/policies/{namespace}"
        yield from _folders([path], seen)
        yield Made(path, b'{"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":1024}}')


def _bookkeeper(topics: list[_Topic], rng: random.Random) -> Iterator[Made]:
    yield Made("/ledgers")
    yield Made("/ledgers/INSTANCEID", b"6a8a0ab2-9d1f-4b9b-8c0e-6a0f3f3a8c11")
    yield Made("/ledgers/LAYOUT", b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
    yield Made("/ledgers/available")
    bookies = [name for _, name in _bookies()]
    for index, name in enumerate(bookies[1:-1]):
        yield Made(f"/ledgers/available/{name}", _registration(name), session=bookie_session(index))
    yield Made("/ledgers/available/readonly")
    name = bookies[-1]
    yield Made(f"/ledgers/available/readonly/{name}", _registration(name), session=bookie_session(BOOKIES))
    yield Made("/ledgers/cookies")
    for name in bookies:
        cookie = Cookie(name, "/bookkeeper/journal", ("/bookkeeper/ledgers-0", "/bookkeeper/ledgers-1"), "6a8a0ab2")
        yield Made(f"/ledgers/cookies/{name}", encode_cookie(cookie))
    yield from _ledgers(topics, bookies, rng)
    marked = sorted(ledger for topic in topics for ledger in topic.ledgers if ledger % 100 == 1)
    yield from (Made("/ledgers/underreplication"), Made("/ledgers/underreplication/ledgers"))
    seen = {"/ledgers", "/ledgers/underreplication", "/ledgers/underreplication/ledgers"}
    for ledger in marked:
        path = underreplicated_path(ledger)
        yield from _folders([path], seen)
        yield Made(path, f'replica: "{bookies[0]}"\nctime: {START_MS + ledger}\n'.encode())


def _registration(name: str) -> bytes:
    host, _, port = name.partition(":")
    return encode_registration(host, int(port))


def _ledgers(topics: list[_Topic], bookies: list[str], rng: random.Random) -> Iterator[Made]:
    owned = [(ledger, topic, None, ledger == topic.ledgers[-1]) for topic in topics for ledger in topic.ledgers]
    owned += [(ledger, topic, cursor, True) for topic in topics for cursor, ledger in topic.cursors if ledger != -1]
    seen = {"/ledgers"}
    in_order = sorted((ledger_path(each[0]), each) for each in owned)
    for number, (path, (ledger, topic, cursor, last)) in enumerate(in_order):
        yield from _folders([path], seen)
        if _damaged(number):
            yield Made(path, DAMAGED)
            continue
        metadata = _metadata(ledger, topic, cursor, last, bookies, rng)
        yield Made(path, encode_ledger_metadata(metadata), 0 if metadata.state is LedgerState.OPEN else 1)


def _metadata(
    ledger: int, topic: _Topic, cursor: str | None, is_open: bool, bookies: list[str], rng: random.Random
) -> LedgerMetadata:
    shape = rng.random()
    size = 3 if shape < 0.9 else 5
    segments = [Segment(0, tuple(rng.sample(bookies, size)))]
    while shape > 0.97 and len(segments) < 4:
        segments.append(Segment(segments[-1].first_entry + rng.randrange(1, 90_000), tuple(rng.sample(bookies, size))))
    version = 3 if rng.random() < 0.99 else rng.choice((1, 2))
    custom = [("application", b"pulsar"), ("component", b"managed-ledger")]
    custom.append(("pulsar/managed-ledger", topic.managed_ledger.encode()))
    custom += [("pulsar/cursor", encode_name(cursor).encode())] if cursor is not None else []
    entries = segments[-1].first_entry + rng.randrange(50_000)
    return LedgerMetadata(
        size,
        3,
        3 if version == 1 else 2,
        tuple(segments),
        state=LedgerState.OPEN if is_open else LedgerState.CLOSED,
        last_entry=-1 if is_open else entries,
        length=0 if is_open else entries * 1000,
        digest_type=None if version == 1 else DigestType.CRC32C,
        password=None if version == 1 else b"",
        ctime=-1 if version == 1 else START_MS + ledger,
        custom_metadata=() if version == 1 else tuple(custom),
        format_version=version,
    )


def _managed_ledgers(topics: list[_Topic], rng: random.Random) -> Iterator[Made]:
    yield Made("/managed-ledgers")
    seen = {"/managed-ledgers"}
    cursors = count()
    for number, topic in enumerate(topics):
        path = f"/managed-ledgers/{topic.managed_ledger}"
        yield from _folders([path], seen)
        yield Made(path, DAMAGED if _damaged(number) else _topic_record(topic, rng), len(topic.ledgers))
        for cursor, ledger in topic.cursors:
            data = DAMAGED if _damaged(next(cursors)) else _cursor_record(topic, ledger, rng)
            yield Made(f"{path}/{encode_name(cursor)}", data, rng.randrange(20))


def _topic_record(topic: _Topic, rng: random.Random) -> bytes:
    shape = rng.random()
    ledgers = [_ledger_info(ledger, ledger == topic.ledgers[-1], rng) for ledger in topic.ledgers]
    last = Position(topic.ledgers[-1], 41) if topic.ledgers else None
    info = ManagedLedgerInfo(
        tuple(ledgers),
        terminated=last if shape > 0.995 else None,
        properties=(("owner", "team-äß"), ("tier", "gold")) if shape > 0.95 else (),
    )
    if shape < 0.003:
        message = InfoMessage.FromString(encode_managed_ledger_info(info))
        return text_format.MessageToString(message).encode()
    compression = rng.choice(COMPRESSIONS) if shape < 0.02 else "NONE"
    return encode_managed_ledger_info(info, compression=compression)


def _ledger_info(ledger: int, is_open: bool, rng: random.Random) -> LedgerInfo:
    if is_open:
        return LedgerInfo(ledger)
    entries = rng.randrange(1, 50_000)
    offload = None
    if rng.random() < 0.02:
        context = InfoMessage().ledgerInfo.add(ledgerId=ledger).offloadContext
        context.uidMsb, context.uidLsb, context.complete = -ledger, ledger, True
        context.timestamp, context.driverMetadata.name = START_MS + ledger, "aws-s3"
        context.driverMetadata.properties.add(key="bucket", value="cold")
        offload = OffloadContext(context.SerializeToString())
    return LedgerInfo(ledger, entries, entries * 1000, START_MS + ledger, offload)


def _cursor_record(topic: _Topic, cursor_ledger: int, rng: random.Random) -> bytes:
    shape = rng.random()
    ledger = rng.choice(topic.ledgers) if topic.ledgers else 0
    entry = rng.randrange(40_000)
    info = ManagedCursorInfo(
        cursor_ledger,
        Position(ledger, entry),
        ranges=_holes(ledger, entry, rng) if cursor_ledger == -1 and shape > 0.7 else (),
        properties=(("#pulsar.internal.compacted", ledger),) if shape < 0.03 else (),
        last_active=START_MS + entry,
        batch_deletions=(BatchDeletion(Position(ledger, entry + 7), (-2, 1 << 40)),) if shape > 0.97 else (),
        cursor_properties=(("region", "eu-äß"), ("kind", "billing")) if 0.03 < shape < 0.06 else (),
    )
    return encode_managed_cursor_info(info, compression=rng.choice(COMPRESSIONS) if shape < 0.01 else "NONE")


def _holes(ledger: int, entry: int, rng: random.Random) -> tuple[PositionRange, ...]:
    ranges = []
    for _ in range(min(1000, int(rng.paretovariate(1.2)))):
        lower = entry + rng.randrange(1, 50)
        entry = lower + rng.randrange(1, 20)
        ranges.append(PositionRange(Position(ledger, lower), Position(ledger, entry)))
    return tuple(ranges)


def _schemas(topics: list[_Topic], rng: random.Random) -> Iterator[Made]:
    """Nine topics of ten have a schema."""
    yield Made("/schemas")
    seen = {"/schemas"}
    for index, topic in enumerate(topics):
        if index % 10:
            path = f"/schemas/{topic.namespace}/{encode_name(topic.name)}"
            yield from _folders([path], seen)
            yield Made(path, _schema(rng), rng.randrange(4))


def _schema(rng: random.Random) -> bytes:
    """The record of a schema with one version."""
    position = SchemaPosition(ledgerId=rng.randrange(1 << 20), entryId=0)
    version = SchemaIndexEntry(version=0, position=position, hash=rng.randbytes(HASH_BYTES))
    return SchemaLocator(info=version, index=[version]).SerializeToString()


def _brokers(topics: list[_Topic]) -> Iterator[Made]:
    """A few brokers, each with bundles of every namespace, all of which are served."""
    addresses = [_broker_address(index) for index in range(BROKERS)]
    served: dict[str, list[str]] = {address.name: [] for address in addresses}
    owners: list[Made] = []
    ranges = bundle_names(plan_boundaries(BUNDLES))
    seen = {"/namespace"}
    for number, (namespace, _) in enumerate(groupby(topics, lambda topic: topic.namespace)):
        owners += _folders([f"/namespace/{namespace}/"], seen)
        for at, bundle in enumerate(ranges):
            index = (number + at) % BROKERS
            served[addresses[index].name].append(f"{namespace}/{bundle}")
            data = encode_bundle_owner(addresses[index])
            owners.append(Made(f"/namespace/{namespace}/{bundle}", data, session=broker_session(index)))
    yield from (Made("/loadbalance"), Made("/loadbalance/brokers"))
    for index, address in enumerate(addresses):
        load = BrokerLoad(served[address.name], len(topics) // BROKERS)
        report = encode_report(report_content(address, load, started_ms=START_MS, now_ms=START_MS))
        yield Made(f"/loadbalance/brokers/{address.name}", report, 3, broker_session(index))
    yield Made("/namespace")
    yield from owners


def _broker_address(index: int) -> BrokerAddress:
    host = f"10.1.0.{index}"
    return BrokerAddress(f"{host}:8080", f"pulsar://{host}:6650", web_url=f"http://{host}:8080")
