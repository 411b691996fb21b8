"""Ledgers in the metadata store: their ids, and their metadata by compare-and-set (formats.md, ZooKeeper tree).

An id is the sequence number of an ephemeral node that is deleted at once. Past 2^31-2, ids come from a 63-bit counter,
whose upper half is the name of the directory it counts in. Once that counter exists, no other is used.
"""

import re
from collections.abc import AsyncIterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from mledger.metastore.errors import (
    InvalidName,
    NodeExists,
    NodeNotEmpty,
    NodeNotFound,
    RecordError,
    SessionExpired,
    StoreUnavailable,
)
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import FIRST_LONG_ID, LEDGERS, ledger_id_from_path, ledger_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import ANY_VERSION, Create, Delete, MetadataReader, MetadataStore, Node, Operation
from mledger.metastore.write_verification import ATTEMPTS, multi_own, put_own

__all__ = ["LedgerStore", "LedgerStoreReader", "multi_own", "put_own"]

Page = list[int]
Versioned = tuple[LedgerMetadata, int]
Errors = list[RecordError]

log = get_logger(__name__)

_TREES = re.compile(r"\d{2,3}", re.ASCII)
_FLAT_LEDGER = re.compile(r"L\d+", re.ASCII)
_HIGH = re.compile(r"HOB-(\d{10})", re.ASCII)
_LEVELS_BELOW = {2: 2, 3: 4}
"""How deep the ledgers lie below a directory with a name of two or three digits."""

_AT_ONCE = 64
"""Directories listed at once."""

_LISTED_AT_ONCE = 16
"""Directories listed at once that hold ledgers, each at most ten thousand."""

MOST_DRAWN = 100_000
"""The most ids that are drawn to come above a ledger."""

_DRAWN_AT_ONCE = 200


class LedgerStoreReader:
    """Reads ledgers' metadata. Paths are below `root`."""

    def __init__(self, store: MetadataReader, root: str = LEDGERS) -> None:
        self._reader = store
        self.root = root

    async def read(self, ledger_id: int) -> Versioned:
        """The metadata of a ledger and its version; NodeNotFound, RecordError."""
        path = ledger_path(ledger_id, self.root)
        node = await self._reader.get(path)
        return decode_ledger_metadata(node.data, path), node.version

    async def read_many(self, ledger_ids: Sequence[int]) -> list[Versioned | None]:
        """The metadata and version of each ledger, None for one that is not there; RecordError."""
        paths = [ledger_path(ledger_id, self.root) for ledger_id in ledger_ids]
        nodes = await self._reader.get_many(paths)
        return [
            None if node is None else (decode_ledger_metadata(node.data, path), node.version)
            for path, node in zip(paths, nodes, strict=True)
        ]

    async def read_each(self, ledger_ids: Sequence[int]) -> Sequence[Versioned | RecordError | None]:
        """As `read_many`, with the error of a record that cannot be read in its place: the others are still known."""
        paths = [ledger_path(ledger_id, self.root) for ledger_id in ledger_ids]
        return [
            None if node is None else _decoded(node, path)
            for path, node in zip(paths, await self._reader.get_many(paths), strict=True)
        ]

    async def list(self, strange: Errors | None = None) -> AsyncIterator[Page]:
        """Yield the ids of all ledgers in ascending order, in pages that are not empty.

        A node whose name is no ledger's is left out with a warning, and its error added to `strange`: nobody finds a
        ledger there. Ends without an error only after it has listed the whole tree. Raises StoreUnavailable,
        NodeNotFound (no root) and RecordError (a flat ledger manager). A ledger created or deleted meanwhile may be
        missing.
        """
        strange = [] if strange is None else strange
        names = await self._names_at_root()
        trees = sorted((name for name in names if _TREES.fullmatch(name)), key=lambda name: (len(name), name))
        for name in trees:
            async for page in self._pages([f"{self.root}/{name}"], _LEVELS_BELOW[len(name)], strange):
                yield page

    async def absent(self, ledger_ids: Sequence[int]) -> Page:
        """Those of `ledger_ids`, which are ascending, that the listing lacks: candidates to check, not proof (Q9).

        Lists only the directories that would hold these ids, a few at a time: it takes little memory in any cluster.
        Raises what `list` does.
        """
        await self._names_at_root()
        found: Page = []
        directories = [(name, tuple(ids)) for name, ids in groupby(ledger_ids, self._directory_of)]
        for start in range(0, len(directories), _LISTED_AT_ONCE):
            some = directories[start : start + _LISTED_AT_ONCE]
            listings = await self._reader.children_many([name for name, _ in some])
            for (name, ids), names in zip(some, listings, strict=True):
                listed = frozenset(names or ())
                found += [each for each in ids if ledger_path(each, self.root)[len(name) + 1 :] not in listed]
        return found

    async def _names_at_root(self) -> Sequence[str]:
        """The names directly below the root; RecordError when they are ledgers."""
        names = await self._reader.children(self.root)
        flat = [name for name in names if _FLAT_LEDGER.fullmatch(name)]
        if flat:
            path = f"{self.root}/{flat[0]}"
            raise RecordError(f"{path} belongs to a flat ledger manager; only the hierarchical layout is read", path)
        return names

    def _directory_of(self, ledger_id: int) -> str:
        return _directory(ledger_path(ledger_id, self.root))

    async def _pages(self, directories: Sequence[str], levels: int, strange: Errors) -> AsyncIterator[Page]:
        for start in range(0, len(directories), _AT_ONCE):
            some = directories[start : start + _AT_ONCE]
            found = await self._reader.children_many(some)
            # None: the directory was deleted with its ledgers after its parent was listed.
            below = [
                f"{directory}/{name}"
                for directory, names in zip(some, found, strict=True)
                for name in sorted(names or ())
            ]
            if levels > 1:
                async for page in self._pages(below, levels - 1, strange):
                    yield page
            elif found_ids := [ledger for path in below if (ledger := self._id_at(path, strange)) is not None]:
                yield found_ids

    def _id_at(self, path: str, strange: Errors) -> int | None:
        try:
            return ledger_id_from_path(path, self.root)
        except InvalidName as error:
            log.warning("node_left_out", path=path, reason="it is among the ledgers but is not a ledger")
            strange.append(RecordError(f"{path} is among the ledgers but is not a ledger: {error}", path))
            return None


class LedgerStore(LedgerStoreReader):
    """Also creates, changes and deletes ledgers' metadata."""

    def __init__(self, store: MetadataStore, root: str = LEDGERS) -> None:
        super().__init__(store, root)
        self._store = store
        self._long_ids: bool | None = None

    async def next_id(self) -> int:
        """Draw a ledger id that the cluster gives to nobody else; StoreUnavailable may waste one, which is harmless."""
        if self._long_ids is None:
            self._long_ids = await self._store.exists(f"{self.root}/idgen-long") is not None
        if not self._long_ids:
            short = await self._count(f"{self.root}/idgen")
            if short is not None:
                return short
            self._long_ids = True
        return await self._next_long_id()

    async def next_id_above(self, above: int) -> int | None:
        """As `next_id`, an id above `above`; None if the counter is so far behind that this would use up too many.

        Those in between are used up: the counter never moves back.
        """
        drawn = await self.next_id()
        while drawn <= above:
            if above + 1 >= FIRST_LONG_ID or above - drawn > MOST_DRAWN:
                return None
            drawn = await self._draw(min(_DRAWN_AT_ONCE, above - drawn + 1))
        return drawn

    async def _draw(self, count: int) -> int:
        """Use up `count` short ids; return the last of them."""
        prefix = f"{self.root}/idgen/ID-"
        made = await self._store.multi([Create(prefix, ephemeral=True, sequential=True)] * count)
        paths = [path for path in made if isinstance(path, str)]
        await self._store.multi([Delete(path) for path in paths])
        return max(int(path.removeprefix(prefix)) for path in paths)

    async def create(self, ledger_id: int, metadata: LedgerMetadata, also: Sequence[Operation] = ()) -> int:
        """Create the ledger's metadata and carry out `also`, both or neither; return the version of the metadata.

        Creates missing parents. NodeExists when another client has taken the id. If the create's answer is lost, the
        node is read back (M7); the random token of version 3 distinguishes our node from another's.
        """
        import secrets  # readers of ledgers draw no token

        token = secrets.randbits(63) or 1 if metadata.format_version == 3 else 0
        data = encode_ledger_metadata(replace(metadata, c_token=token))
        operations = [Create(ledger_path(ledger_id, self.root), data), *also]
        for _ in range(ATTEMPTS):
            try:
                await multi_own(self._store, operations)
            except NodeNotFound as error:
                directories = [_directory(each.path) for each in operations if isinstance(each, Create)]
                missing = [each for each in directories if each in {error.path, _directory(error.path)}]
                if not missing:
                    raise
                # A delete of another ledger removes directories that it leaves empty, so this can happen again.
                await self._make_directory(missing[0])
            else:
                return 0
        path = ledger_path(ledger_id, self.root)
        raise NodeNotFound(f"the directories of {path} were removed as often as they were made: try again", path)

    async def put(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """Replace the metadata if it is at `version`; return the new version. BadVersion, NodeNotFound.

        After a lost connection the node is read back first: if it holds our own bytes one version up, the write was
        ours (M7). As in Java, the token of the create is not written again.
        """
        data = encode_ledger_metadata(replace(metadata, c_token=0))
        return await put_own(self._store, ledger_path(ledger_id, self.root), data, version)

    async def delete(self, ledger_id: int, version: int = ANY_VERSION) -> None:
        """Delete the metadata if it is at `version`, and the directories it leaves empty. NodeNotFound, BadVersion."""
        path = ledger_path(ledger_id, self.root)
        try:
            await self._store.delete(path, version)
        except SessionExpired:
            raise
        except StoreUnavailable:
            await self._store.sync()  # to a server that lags, a ledger that it has not heard of yet looks deleted
            if await self._store.exists(path) is not None:
                raise
        await self._prune(_directory(path))

    async def _prune(self, directory: str) -> None:
        while directory != self.root:
            try:
                stat = await self._store.exists(directory)  # a refused delete is a write, too, and fails a multi
                if stat is None or stat.num_children:
                    return
                await self._store.delete(directory)
            except NodeNotEmpty:
                return
            except (NodeNotFound, StoreUnavailable) as error:
                log.info("ledger_directory_not_removed", path=directory, error=error)
                return
            directory = _directory(directory)

    async def _next_long_id(self) -> int:
        counters = f"{self.root}/idgen-long"
        try:
            names = await self._store.children(counters)
        except NodeNotFound:
            names = []
        high = max((int(found[1]) for name in names if (found := _HIGH.fullmatch(name))), default=1)
        while high < 1 << 31:
            low = await self._count(f"{counters}/HOB-{high:010d}")
            if low is not None:
                return high << 32 | low
            high += 1
        raise RecordError(f"all ledger ids below {counters} are used up", counters)

    async def _count(self, directory: str) -> int | None:
        """The next number of the counter in `directory`, None when none below 2^31-1 is left."""
        made = await self._store.create(f"{directory}/ID-", ephemeral=True, sequential=True, parents=True)
        try:
            await self._store.delete(made)
        except (NodeNotFound, StoreUnavailable) as error:
            log.info("id_counter_node_left", path=made, error=error)
        number = int(made.removeprefix(f"{directory}/ID-"))
        return number if 0 <= number < FIRST_LONG_ID else None

    async def _make_directory(self, path: str) -> None:
        try:
            await self._store.create(path, parents=True)
        except NodeExists:
            log.debug("directory_exists", path=path)


def _decoded(node: Node, path: str) -> Versioned | RecordError:
    try:
        return decode_ledger_metadata(node.data, path), node.version
    except RecordError as error:
        return error


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
