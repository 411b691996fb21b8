"""The topics of a namespace as clients ask for them: with a hash of the list. No I/O."""

import enum
from collections.abc import Iterable

import google_crc32c


class TopicsMode(enum.IntEnum):
    """Which topics of a namespace a client asks for; the values are those of the protocol."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2


def topics_hash(topics: Iterable[str]) -> str:
    """Pulsar's hash of a list of topics, by which a client sees that nothing changed."""
    return int(google_crc32c.value(",".join(sorted(topics)).encode())).to_bytes(4, "little").hex()
