"""Which bookies are registered, read-only or missing, from the names of their nodes."""

from collections.abc import Iterable
from dataclasses import dataclass

from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.store import MetadataReader

_READ_ONLY = "readonly"


@dataclass(frozen=True, slots=True)
class BookieStates:
    """Bookies by id; a `missing` one has a cookie, so that it may hold entries, but no registration."""

    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def plan_states(available: Iterable[str], read_only: Iterable[str], cookies: Iterable[str]) -> BookieStates:
    """The states by the nodes' names; a bookie that has both registrations is becoming writable again."""
    writable = {name for name in available if name != _READ_ONLY}
    refusing = set(read_only) - writable
    missing = set(cookies) - writable - refusing
    return BookieStates(tuple(sorted(writable)), tuple(sorted(refusing)), tuple(sorted(missing)))


async def read_bookie_states(reader: MetadataReader) -> BookieStates:
    """The states of all bookies. StoreUnavailable."""
    folder = f"{LEDGERS}/available"
    listed = await reader.children_many([folder, f"{folder}/{_READ_ONLY}", f"{LEDGERS}/cookies"])
    available, read_only, cookies = (names or () for names in listed)
    return plan_states(available, read_only, cookies)
