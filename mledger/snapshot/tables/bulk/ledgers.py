"""The rows of `ledgers` and `ensembles` of many ledgers at once: metadata of format version 3; pure."""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

import numpy
import pyarrow as pa

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.ledger_codec import HEADER_3
from mledger.metastore.records.ledger_metadata import NO_ENTRY, NOT_KEPT, DigestType, LedgerState
from mledger.metastore.records.paths import FIRST_LONG_ID, check_bookie_id, ledger_id_from_path
from mledger.snapshot.tables.bulk.names import OwnerNames
from mledger.snapshot.tables.bulk.nodes import Columns, NodeBatch, Tables, index_within, repeated
from mledger.snapshot.tables.bulk.texts import (
    Entries,
    choice,
    numbers_of,
    offsets_of,
    read_entries,
    texts,
    times_of,
    usual_times,
)
from mledger.snapshot.tables.bulk.wire import Bytes, FieldValues, Layout, MessageFields, Numbers, require
from mledger.snapshot.tables.columns import INT, TEXT, TEXT_MAP, TEXTS
from mledger.snapshot.tables.decoder import CURSOR, MANAGED_LEDGER
from mledger.snapshot.tables.records import FoundNode

_METADATA = Layout(numbers=(1, 2, 3, 4, 5, 7, 9, 10, 12), sized=(6, 8, 11))
_SEGMENT = Layout(numbers=(2,), sized=(1,))
_STATES = (None, *(state.name for state in LedgerState))
_DIGESTS = (None, *(digest.name for digest in DigestType))
_CLOSED = LedgerState.CLOSED.value
_LARGEST = 1 << 60
"""Numbers beyond it are unusual: sums of smaller ones fit into 64 bits."""

_SHORT = "/00/0000/L0000"
"""What a ledger's path is like below the root, unless its id is very large."""
_WEIGHTS = 10 ** numpy.arange(9, -1, -1)


def is_usual(node: FoundNode) -> bool:
    """Whether the record may be read with others."""
    return node.data.startswith(HEADER_3)


def ledger_tables(nodes: Sequence[FoundNode], ledgers_root: str) -> Tables:
    """The rows of both tables. UnusualRecords."""
    batch = NodeBatch(nodes, len(HEADER_3))
    metadata = _Metadata(batch)
    ids = _ledger_ids(batch.paths, ledgers_root)
    custom = _Custom(metadata.custom, batch.count)
    owners = custom.owners()
    ledger_id: Columns = {"ledger_id": lambda: pa.array(ids)}
    ledgers = {
        **ledger_id,
        **owners,
        "managed_ledger": lambda: custom.value(MANAGED_LEDGER),
        "cursor": lambda: custom.value(CURSOR),
        **batch.node_columns(),
        **batch.znode_columns(),
        **metadata.columns(),
        "custom_metadata": lambda: custom.entries.array(TEXT_MAP),
    }
    shared = repeated({**ledger_id, **owners, **batch.znode_columns()}, metadata.member_ledgers)
    return {
        "ledgers": (batch.count, ledgers),
        "ensembles": (len(metadata.member_ledgers), {**metadata.member_columns(), **shared}),
    }


class _Metadata:
    """The metadata of ledgers. UnusualRecords."""

    def __init__(self, batch: NodeBatch) -> None:
        self.count = count = batch.count
        data = batch.data
        fields = _message(batch)
        self.write_quorum, self.ensemble_size = fields.required(1), fields.required(2)
        length, self.state = fields.required(3), fields.required(5)
        last_entry, has_last = fields.number(4)
        self.digest, has_digest = fields.number(7)
        ack_quorum, has_ack = fields.number(9)
        self.ctime, self.has_ctime = fields.number(10, NOT_KEPT)
        fields.number(12)
        fields.one(8, sized=True)
        self.ack_quorum = numpy.where(has_ack, ack_quorum, self.write_quorum)
        self.closed = closed = self.state == _CLOSED
        self.last_entry, self.length = numpy.where(closed, last_entry, NO_ENTRY), numpy.where(closed, length, 0)
        fields.require(
            (self.state >= 1) & (self.state < len(_STATES))
            & (~has_digest | ((self.digest >= 1) & (self.digest < len(_DIGESTS))))
            & (~closed | has_last)
            & (self.last_entry >= NO_ENTRY) & (self.last_entry < _LARGEST) & (self.length >= 0)
            & (self.ensemble_size < 1 << 31) & (self.ensemble_size >= self.write_quorum)
            & (self.write_quorum >= self.ack_quorum) & (self.ack_quorum >= 1)
            & usual_times(self.ctime)
        )  # fmt: skip
        self._read_segments(data, fields.many(6, sized=True))
        custom = fields.many(11, sized=True)
        self.custom = read_entries(data, custom, custom.rows, count, count)

    def _read_segments(self, data: Bytes, segments: FieldValues) -> None:
        count, rows = self.count, segments.rows
        self.segments = segments.counts(count)
        require(self.segments > 0)
        parts = MessageFields(data, segments.starts, segments.ends, _SEGMENT, rows, count)
        self.firsts = firsts = parts.required(2)
        is_first = numpy.ones(len(rows), numpy.bool_)
        is_first[1:] = rows[1:] != rows[:-1]
        before = numpy.concatenate((firsts[:1], firsts[:-1]))
        members = parts.many(1, sized=True)
        in_segment = members.counts(len(segments))
        parts.require(
            numpy.where(is_first, firsts == 0, (firsts > before) & (firsts < _LARGEST))
            & (in_segment == self.ensemble_size[rows])
        )
        is_last = numpy.roll(is_first, -1)
        self.lasts = numpy.where(is_last, self.last_entry[rows], numpy.roll(firsts, -1) - 1)
        self.has_last = ~is_last | self.closed[rows]
        self.place = index_within(rows, self.segments)
        self.member_segments, self.member_ledgers = members.rows, rows[members.rows]
        self.member_place = index_within(members.rows, in_segment)
        names = texts(data, members, self.member_ledgers, count).dictionary_encode()
        self.bookies, self.bookie = names.dictionary, names.indices.to_numpy().astype(numpy.int64)
        usual = numpy.array([_is_bookie(name) for name in self.bookies.to_pylist()])
        require(usual[self.bookie], self.member_ledgers, count)

    def columns(self) -> Columns:
        """Those of `ledgers`."""
        return {
            "state": lambda: choice(_STATES, TEXT, self.state),
            "ensemble_size": lambda: numbers_of(self.ensemble_size, kind=INT),
            "write_quorum": lambda: numbers_of(self.write_quorum, kind=INT),
            "ack_quorum": lambda: numbers_of(self.ack_quorum, kind=INT),
            "last_entry": lambda: numbers_of(self.last_entry, self.closed),
            "length": lambda: numbers_of(self.length, self.closed),
            "digest_type": lambda: choice(_DIGESTS, TEXT, self.digest),
            "ctime": lambda: times_of(self.ctime, self.ctime != NOT_KEPT),
            "format_version": lambda: numbers_of(numpy.full(self.count, 3), kind=INT),
            "ensembles": lambda: numbers_of(self.segments, kind=INT),
            "bookies": self._distinct_bookies,
        }

    def _distinct_bookies(self) -> pa.Array:
        names = self.bookies.to_pylist()
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = numpy.empty(len(names), numpy.int64)
        rank[order] = numpy.arange(len(names))
        rows, ranks = numpy.divmod(numpy.unique(self.member_ledgers * len(names) + rank[self.bookie]), len(names))
        values = self.bookies.take(pa.array(numpy.array(order)[ranks]))
        return pa.ListArray.from_arrays(offsets_of(rows, self.count), values, type=TEXTS)

    def member_columns(self) -> Columns:
        """Those of `ensembles`."""
        segment = self.member_segments
        return {
            "ensemble": lambda: numbers_of(self.place[segment], kind=INT),
            "first_entry": lambda: pa.array(self.firsts[segment]),
            "last_entry": lambda: numbers_of(self.lasts[segment], self.has_last[segment]),
            "member": lambda: numbers_of(self.member_place, kind=INT),
            "bookie_id": lambda: self.bookies.take(pa.array(self.bookie)),
            "entries": lambda: numbers_of(self._held(), self.has_last[segment]),
        }

    def _held(self) -> Numbers:
        """As `entries_held`, for all members."""
        first, last = self.firsts[self.member_segments], self.lasts[self.member_segments]
        last = numpy.maximum(last, first - 1)
        size, quorum = self.ensemble_size[self.member_ledgers], self.write_quorum[self.member_ledgers]
        held = last - first + 1
        striped = numpy.flatnonzero(size != quorum)
        if len(striped):
            first, last, size, quorum = first[striped], last[striped], size[striped], quorum[striped]
            member, some = self.member_place[striped], numpy.zeros(len(striped), numpy.int64)
            for copy in range(int(quorum.max())):
                rest = (member - copy) % size
                some += ((last - rest) // size - (first - 1 - rest) // size) * (copy < quorum)
            held[striped] = some
        return held


def _message(batch: NodeBatch) -> MessageFields:
    """The fields of the messages, each of which follows its length."""
    data, starts, ends = batch.data, batch.starts, batch.ends
    size, shift, at = numpy.zeros(batch.count, numpy.int64), 0, starts.copy()
    goes_on = numpy.ones(batch.count, numpy.bool_)
    for _ in range(4):
        byte = data[at] * goes_on
        size |= (byte & 0x7F).astype(numpy.int64) << shift
        at += goes_on
        goes_on = byte > 0x7F
        shift += 7
    require(~goes_on & (ends - at == size))
    return MessageFields(data, at, ends, _METADATA)


class _Custom:
    """The custom metadata of ledgers, and what it says of their owners."""

    def __init__(self, entries: Entries, count: int) -> None:
        self.entries = entries
        self._count = count
        self._codes, self._names = entries.codes()

    def value(self, key: str) -> pa.Array:
        """The value of a key in each ledger, null where it is not given."""
        if key not in self._names:
            return pa.nulls(self._count, TEXT)
        which = numpy.flatnonzero(self._codes == self._names.index(key))
        place, given = numpy.zeros(self._count, numpy.int64), numpy.zeros(self._count, numpy.bool_)
        place[self.entries.rows[which]], given[self.entries.rows[which]] = which, True
        return self.entries.values.take(pa.array(place, mask=~given))

    def owners(self) -> Columns:
        """The columns that name the owners."""
        owners = OwnerNames(self.value(MANAGED_LEDGER).to_pylist())
        return {"tenant": owners.tenants, "namespace": owners.namespaces, "topic": owners.topics}


@lru_cache(maxsize=4096)
def _is_bookie(name: str) -> bool:
    try:
        check_bookie_id(name)
    except InvalidName:
        return False
    return True


def _ledger_ids(paths: Sequence[str], root: str) -> Numbers:
    """The ids of the ledgers at these paths. UnusualRecords."""
    ids, usual = numpy.zeros(len(paths), numpy.int64), numpy.zeros(len(paths), numpy.bool_)
    length = len(root) + len(_SHORT)
    short = [index for index, path in enumerate(paths) if len(path) == length and path.isascii()]
    found = numpy.frombuffer("".join([paths[index] for index in short]).encode(), numpy.uint8).reshape(-1, length)
    is_digit = numpy.array([each == "0" for each in root + _SHORT])
    is_digit[: len(root)] = False
    digits = found[:, is_digit].astype(numpy.int64) - ord("0")
    numbers = digits @ _WEIGHTS
    fits = (digits >= 0).all(axis=1) & (digits <= 9).all(axis=1) & (numbers < FIRST_LONG_ID)
    fits &= (found[:, ~is_digit] == numpy.frombuffer((root + _SHORT).encode(), numpy.uint8)[~is_digit]).all(axis=1)
    ids[short], usual[short] = numbers, fits
    for index in numpy.flatnonzero(~usual).tolist():
        with suppress(InvalidName):
            ids[index], usual[index] = ledger_id_from_path(paths[index], root), True
    require(usual)
    return ids
