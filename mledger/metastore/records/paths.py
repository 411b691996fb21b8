"""All paths of the metadata store, and the names in them (formats.md, ZooKeeper tree). Pure; bad names: InvalidName.

Topic and cursor names appear in paths as Java's URLEncoder writes them. A managed ledger's name is its path below
`/managed-ledgers`, with the topic already encoded: `tenant/namespace/persistent/<encoded topic>`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import quote_plus, unquote_plus

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.node_path import check_element

MANAGED_LEDGERS = "/managed-ledgers"
LEDGERS = "/ledgers"
MLEDGER = "/mledger"
PENDING = f"{MLEDGER}/pending"
DELETIONS = f"{MLEDGER}/deletions"
KEPT = f"{MLEDGER}/kept"
OWNERS = f"{MLEDGER}/owners"
PARTITIONED_TOPICS = "/admin/partitioned-topics"
NAMESPACE_POLICIES = "/admin/policies"
LOCAL_POLICIES = "/admin/local-policies"

PERSISTENT = "persistent"
SEGMENT = "segment"
"""The domain of the topics that a scalable topic of Pulsar 5 consists of (`topic://`, which itself stores nothing)."""
SCALABLE = "topic"
NON_PERSISTENT = "non-persistent"
PARTITION = "-partition-"
MAX_PARTITION = (1 << 31) - 1

MAX_LEDGER_ID = (1 << 63) - 1
FIRST_LONG_ID = (1 << 31) - 1
"""From this id on, a ledger's path has five levels instead of three."""

SEGMENT_DESCRIPTOR = re.compile(r"[0-9a-f]{4}-[0-9a-f]{4}-\d{1,19}", re.ASCII)
"""A segment: its hash range and its number; the last element of a segment's path."""

_REMEMBERED = 4096
"""Topics whose names are not taken apart again: an opening asks for one several times."""

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PLAIN = re.compile(r"[a-zA-Z0-9*_\-][a-zA-Z0-9*._\-]*")
_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:;<=>?@\[\\\]^_.\-]+")  # what BookKeeper's ":-_" is: a range, with [::1]:3181 in it
_SHORT_LEDGER = re.compile(r"(\d{2})/(\d{4})/L(\d{4})", re.ASCII)
_LONG_LEDGER = re.compile(r"(\d{3})/(\d{4})/(\d{4})/(\d{4})/L(\d{4})", re.ASCII)


def encode_name(name: str) -> str:
    """Encode `name` as one element of a path: UTF-8, space as `+`, only letters, digits and `*-._` unescaped."""
    if _PLAIN.fullmatch(name):
        return name
    try:
        return quote_plus(name, safe="*").replace("~", "%7E")
    except UnicodeEncodeError:
        raise InvalidName(f"the name {name!r} is not Unicode text: it holds half of a surrogate pair") from None


def decode_name(text: str) -> str:
    """The name that `encode_name` encoded as `text`; other spellings of an escape are read too."""
    if "%" not in text and "+" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise InvalidName(f"{text!r} is not an encoded name: a % must be followed by two hex digits")
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidName(f"{text!r} is not an encoded name: its bytes are not UTF-8") from None


def cursor_name(node: str) -> str:
    """The plain name of the cursor whose node is called `node`; a name that is not encoded is returned as it is."""
    try:
        return decode_name(node)
    except InvalidName:
        return node


def cursor_names(nodes: Iterable[str]) -> dict[str, str]:
    """The name of each cursor of a topic, by its node: no two have the same name, although escapes can be spelled so.

    The cursor whose node is spelled as Pulsar does has the plain name, another one is called as its node is.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    nodes = sorted(nodes)
    if all(map(_PLAIN.fullmatch, nodes)):
        return dict(zip(nodes, nodes, strict=True))
    for node in sorted(nodes, key=lambda each: (encode_name(cursor_name(each)) != each, each)):
        name = cursor_name(node)
        if name in taken:
            name = node
        while name in taken:
            name = encode_name(name)
        taken.add(name)
        names[node] = name
    return names


def topic_of_element(element: str) -> str:
    """The local name of the topic whose node is called `element`; InvalidName. Faster than a TopicName."""
    if _PLAIN.fullmatch(element):
        return element
    name = decode_name(element)
    if name in {"", ".", ".."} or not name.isprintable():  # others are encoded as valid elements
        check_element(encode_name(name), f"the topic {name!r}")
    return name


def split_partition(local_name: str) -> tuple[str, int | None]:
    """The partitioned topic and the index in a partition's name; the name itself and None if it is no partition."""
    base, found, number = local_name.rpartition(PARTITION)
    if (
        not found
        or not number.isdecimal()
        or len(number) > 10
        or len(str(int(number))) != len(number)
        or int(number) > MAX_PARTITION
    ):
        return local_name, None
    return base, int(number)


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic as Pulsar names it; `cluster` only in the old form with five levels, `descriptor` only of a segment."""

    tenant: str
    namespace: str
    local_name: str
    cluster: str | None = None
    domain: str = PERSISTENT
    descriptor: str | None = None

    def __post_init__(self) -> None:
        for what, value in (("tenant", self.tenant), ("cluster", self.cluster), ("namespace", self.namespace)):
            if value is not None and (not _ENTITY.fullmatch(value) or value in {".", ".."}):
                raise InvalidName(f"{value!r} is not a {what}'s name: use letters, digits and -=:._")
        if self.domain not in (PERSISTENT, SEGMENT, NON_PERSISTENT):
            raise InvalidName(
                f"{self.domain!r} is not a domain with storage: only persistent:// and segment:// topics are kept"
            )
        if self.domain == SEGMENT and (self.cluster is not None or not _is_descriptor(self.descriptor)):
            raise InvalidName(
                f"{self.descriptor!r} is not a segment of a topic: write it as segment://tenant/namespace/topic/0000-7fff-1"
            )
        if not _PLAIN.fullmatch(self.local_name):
            check_element(encode_name(self.local_name), f"the topic {self.local_name!r}")

    @classmethod
    def parse(cls, text: str) -> "TopicName":
        """The topic that `text` names to Pulsar.

        Takes `persistent://tenant/namespace/topic`, the old `persistent://tenant/cluster/namespace/topic`, the short
        forms `tenant/namespace/topic` and `topic` (in `public/default`), and a segment of a scalable topic,
        `segment://tenant/namespace/topic/0000-7fff-1`. InvalidName says which forms there are.
        """
        domain, separator, rest = text.partition("://")
        if not separator:
            domain, rest = PERSISTENT, text if "/" in text else f"public/default/{text}"
        if domain == NON_PERSISTENT:
            raise InvalidName(f"{text!r} is a non-persistent topic: Pulsar stores nothing of it")
        if domain == SCALABLE:
            raise InvalidName(
                f"{text!r} is a scalable topic, which itself stores nothing: name one of its segments, as "
                f"segment://{rest}/0000-ffff-0"
            )
        if domain == SEGMENT:
            whole, _, descriptor = rest.rpartition("/")
            parts = whole.split("/", 2)
            if len(parts) == 3:
                return cls(parts[0], parts[1], parts[2], domain=SEGMENT, descriptor=descriptor)
            raise InvalidName(
                f"{text!r} is not a segment's name: write it as segment://tenant/namespace/topic/0000-7fff-1"
            )
        parts = rest.split("/", 3)
        if len(parts) == 3 and domain == PERSISTENT:
            return cls(parts[0], parts[1], parts[2])
        if len(parts) == 4 and domain == PERSISTENT and separator:
            return cls(parts[0], parts[2], parts[3], cluster=parts[1])
        if len(parts) == 2 and not separator:
            raise InvalidName(
                f"{text!r} is not a topic's name: write it as tenant/namespace/topic, or as topic alone if it is in "
                "public/default"
            )
        raise InvalidName(f"{text!r} is not a topic's name: write it as persistent://tenant/namespace/topic")

    @classmethod
    def parse_served(cls, text: str) -> "TopicName":
        """The topic that `text` names to a broker: as `parse`, or `non-persistent://…`, of which nothing is stored."""
        domain, separator, rest = text.partition("://")
        if domain != NON_PERSISTENT or not separator:
            return cls.parse(text)
        try:
            return replace(cls.parse(f"{PERSISTENT}://{rest}"), domain=NON_PERSISTENT)
        except InvalidName as error:
            raise InvalidName(str(error).replace(f"{PERSISTENT}://", f"{NON_PERSISTENT}://")) from None

    @classmethod
    @lru_cache(maxsize=_REMEMBERED)
    def of_managed_ledger(cls, name: str) -> "TopicName":
        """The topic of the managed ledger `name`; InvalidName when the name is not a topic's."""
        parts = name.split("/")
        if len(parts) == 4:
            return cls(parts[0], parts[1], decode_name(parts[3]), domain=parts[2])
        if len(parts) == 5 and parts[2] == SEGMENT and parts[3] != PERSISTENT:
            return cls(parts[0], parts[1], decode_name(parts[3]), domain=SEGMENT, descriptor=parts[4])
        if len(parts) == 5:
            return cls(parts[0], parts[2], decode_name(parts[4]), cluster=parts[1], domain=parts[3])
        raise InvalidName(f"{name!r} is not a topic's managed ledger: tenant/namespace/persistent/topic is")

    def __str__(self) -> str:
        segment = f"/{self.descriptor}" if self.domain == SEGMENT else ""
        return f"{self.domain}://{self.namespace_name}/{self.local_name}{segment}"

    @property
    def is_persistent(self) -> bool:
        """Whether its messages are stored."""
        return self.domain != NON_PERSISTENT

    @property
    def managed_ledger_name(self) -> str:
        """The name of its managed ledger, the local name encoded; of a non-persistent topic that of its events only."""
        segment = f"/{self.descriptor}" if self.domain == SEGMENT else ""
        return f"{self.namespace_name}/{self.domain}/{encode_name(self.local_name)}{segment}"

    @property
    def managed_ledger_path(self) -> str:
        """Where its record is."""
        return f"{MANAGED_LEDGERS}/{self.managed_ledger_name}"

    @property
    def partitioned_topic_path(self) -> str:
        """Where Pulsar keeps how many partitions it has, if it is partitioned."""
        return f"{PARTITIONED_TOPICS}/{self.namespace_name}/{self.domain}/{encode_name(self.local_name)}"

    @property
    def partition_index(self) -> int | None:
        """The partition's index in its name, None if the name is not a partition's; a segment's never is."""
        return None if self.domain == SEGMENT else split_partition(self.local_name)[1]

    @property
    def partition_number(self) -> int:
        """The partition's index as clients have it: -1 if the name is not a partition's."""
        index = self.partition_index
        return -1 if index is None else index

    @property
    def partitioned(self) -> "TopicName":
        """The partitioned topic of this partition; the topic itself if its name is not a partition's."""
        base, index = split_partition(self.local_name)
        return self if index is None or self.domain == SEGMENT else replace(self, local_name=base)

    def partition(self, index: int) -> "TopicName":
        """The name of its partition `index`, from 0."""
        return replace(self, local_name=f"{self.local_name}{PARTITION}{index}")

    @property
    def namespace_name(self) -> str:
        """Its namespace: `tenant/namespace`, or `tenant/cluster/namespace` in the old form."""
        if self.cluster is None:
            return f"{self.tenant}/{self.namespace}"
        return f"{self.tenant}/{self.cluster}/{self.namespace}"


def _is_descriptor(text: str | None) -> bool:
    return text is not None and SEGMENT_DESCRIPTOR.fullmatch(text) is not None


def managed_ledger_depth(elements: Sequence[str]) -> int | None:
    """How many of a path's elements below `/managed-ledgers` name the managed ledger; None if they do not name one.

    Those are tenant/namespace/persistent/topic, tenant/cluster/namespace/persistent/topic and
    tenant/namespace/segment/topic/descriptor.
    """
    if len(elements) > 3 and elements[2] == PERSISTENT:
        return 4
    if len(elements) > 4 and (elements[3] == PERSISTENT or (elements[2] == SEGMENT and _is_descriptor(elements[4]))):
        return 5
    return None


def topic_above(path: str) -> str:
    """The path of the topic's record above a cursor's at `path`, empty for another node."""
    above = path.rpartition("/")[0]
    parts = above.split("/")
    is_topic = parts[1:2] == [MANAGED_LEDGERS[1:]] and managed_ledger_depth(parts[2:]) == len(parts) - 2
    return above if is_topic else ""


def managed_ledger_path(name: str) -> str:
    """Where the record of the managed ledger `name` is."""
    for part in name.split("/"):
        check_element(part, f"{part!r} in the managed ledger's name {name!r}")
    return f"{MANAGED_LEDGERS}/{name}"


def managed_ledger_name_from_path(path: str) -> str:
    """The managed ledger whose record is at `path`."""
    if not path.startswith(f"{MANAGED_LEDGERS}/"):
        raise InvalidName(f"{path!r} is not a managed ledger's path: those begin with {MANAGED_LEDGERS}/")
    return path[len(MANAGED_LEDGERS) + 1 :]


def cursor_path(managed_ledger: str, cursor: str) -> str:
    """Where the record of `cursor` (its plain name) of the managed ledger is."""
    return f"{managed_ledger_path(managed_ledger)}/{check_element(encode_name(cursor), f'the cursor {cursor!r}')}"


def is_possible_ledger(number: int) -> bool:
    """Whether a ledger can have this id: a damaged record may name any number."""
    return 0 <= number <= MAX_LEDGER_ID


def managed_ledger_of_cursor(path: str) -> str:
    """The managed ledger of the cursor whose record is at `path`."""
    return path.removeprefix(f"{MANAGED_LEDGERS}/").rpartition("/")[0]


def cursor_name_from_path(path: str) -> str:
    """The plain name of the cursor whose record is at `path`."""
    return decode_name(path.rpartition("/")[2])


def ledger_path(ledger_id: int, root: str = LEDGERS) -> str:
    """Where the metadata of a ledger is: ten digits in three levels, nineteen in five from 2^31-1 on."""
    if not is_possible_ledger(ledger_id):
        raise InvalidName(f"{ledger_id} is not a ledger id: those are 0 to {MAX_LEDGER_ID}")
    if ledger_id < FIRST_LONG_ID:
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id_from_path(path: str, root: str = LEDGERS) -> int:
    """The ledger whose metadata is at `path`."""
    if path.startswith(root) and path[len(root) : len(root) + 1] == "/":
        below = path[len(root) + 1 :]
        short = _SHORT_LEDGER.fullmatch(below)
        found = short or _LONG_LEDGER.fullmatch(below)
        if found is not None:
            ledger_id = int("".join(found.groups()))
            if ledger_id < FIRST_LONG_ID if short else FIRST_LONG_ID <= ledger_id <= MAX_LEDGER_ID:
                return ledger_id
    raise InvalidName(f"{path!r} is not the path of a ledger's metadata below {root}")


def bookie_path(bookie_id: str, *, read_only: bool = False, root: str = LEDGERS) -> str:
    """Where a bookie registers while it serves."""
    return f"{root}/available/{'readonly/' if read_only else ''}{check_bookie_id(bookie_id)}"


def cookie_path(bookie_id: str, root: str = LEDGERS) -> str:
    """Where a bookie's cookie is."""
    return f"{root}/cookies/{check_bookie_id(bookie_id)}"


def check_bookie_id(bookie_id: str) -> str:
    """`bookie_id` itself; InvalidName if no bookie can be called so."""
    if not _BOOKIE_ID.fullmatch(bookie_id) or bookie_id in {".", ".."} or bookie_id.lower() == "readonly":
        raise InvalidName(f"{bookie_id!r} is not a bookie id: use letters, digits and :-_. and not the word readonly")
    return bookie_id


def underreplicated_path(ledger_id: int, root: str = LEDGERS) -> str:
    """Where the mark is that a ledger lacks replicas."""
    ledger_path(ledger_id, root)
    digits = f"{ledger_id:016x}"
    parts = "/".join(digits[at : at + 4] for at in range(0, 16, 4))
    return f"{root}/underreplication/ledgers/{parts}/urL{ledger_id:010d}"


def underreplication_lock_path(ledger_id: int, root: str = LEDGERS) -> str:
    """Where the lock is of the bookie that replicates that ledger."""
    ledger_path(ledger_id, root)
    return f"{root}/underreplication/locks/urL{ledger_id:010d}"


def pending_path(ledger_id: int) -> str:
    """Where our record is of a ledger that was created and is not yet in its owner's list (R10)."""
    return f"{PENDING}/{ledger_id}"


def deletion_path(ledger_id: int) -> str:
    """Where our record is of a ledger that left its owner's list and is not yet deleted (R10)."""
    return f"{DELETIONS}/{ledger_id}"


def kept_path(ledger_id: int) -> str:
    """Where our record is of a cursor ledger that no cursor names and that holds unreadable entries (M12)."""
    return f"{KEPT}/{ledger_id}"


def owner_path(managed_ledger: str) -> str:
    """Where our ephemeral node is that says who has a managed ledger open (M9)."""
    return f"{OWNERS}/{check_element(encode_name(managed_ledger), f'the managed ledger {managed_ledger!r}')}"
