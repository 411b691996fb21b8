"""The stand-in for RocksDB answers as RocksDB does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Options, WriteOptions
from rocksdict import Rdict as RealRdict
from rocksdict import WriteBatch as RealWriteBatch

from tests.sim.system import rows
from tests.sim.system.disk import SimSystem
from tests.sim.system.loop import SimLoop

FAMILIES = ("entries", "bookie")
keys = st.binary(min_size=1, max_size=2)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(FAMILIES), keys, keys),
        st.tuples(st.just("delete"), st.sampled_from(FAMILIES), keys, st.none()),
        st.tuples(st.just("delete_range"), st.sampled_from(FAMILIES), keys, keys),
    ),
    max_size=12,
)


def _write(database, batch, options, found):
    for what, family, key, value in found:
        handle = database.get_column_family_handle(family)
        if what == "delete":
            batch.delete(key, handle)
        elif what == "put":
            batch.put(key, value, handle)
        elif key < value:
            batch.delete_range(key, value, handle)
    database.write(batch, options)


def _simulated() -> rows.Rdict:
    system = SimSystem(SimLoop("rows"))
    system.add_disk("host")
    rows.Rdict.system = system
    return rows.Rdict("/host/store", rows.SimOptions(), dict.fromkeys(FAMILIES))


@pytest.fixture
def real(tmp_path):
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    database = RealRdict(
        str(tmp_path / "store"), options, column_families=dict.fromkeys(("default", *FAMILIES), options)
    )
    yield database
    database.close()


def _rows(database, family):
    found, iterator = [], database.get_column_family(family).iter()
    iterator.seek_to_first()
    while iterator.valid():
        found.append((iterator.key(), iterator.value()))
        iterator.next()
    return found


def _at(database, family, key, move):
    iterator = database.get_column_family(family).iter()
    getattr(iterator, move)(key)
    return (iterator.key(), iterator.value()) if iterator.valid() else None


def test_batches_and_iterators_agree_with_rocksdb(real):
    options = WriteOptions()
    options.disable_wal = True

    @given(st.lists(changes, max_size=6), keys)
    def agree(batches, key):
        simulated = _simulated()
        for family in FAMILIES:
            clear = RealWriteBatch(raw_mode=True)
            clear.delete_range(b"", b"\xff" * 4, real.get_column_family_handle(family))
            real.write(clear, options)
        for batch in batches:
            _write(real, RealWriteBatch(raw_mode=True), options, batch)
            _write(simulated, rows.WriteBatch(), options, batch)
        for family in FAMILIES:
            assert _rows(simulated, family) == _rows(real, family)
            assert simulated.get_column_family(family).get(key) == real.get_column_family(family).get(key)
            for move in ("seek", "seek_for_prev"):
                assert _at(simulated, family, key, move) == _at(real, family, key, move)

    agree()


def test_what_was_not_flushed_is_gone_with_its_process():
    first = _simulated()
    _write(first, rows.WriteBatch(), None, [("put", "entries", b"a", b"1")])
    first.get_column_family("bookie").compact_range(None, None)
    _write(first, rows.WriteBatch(), None, [("put", "entries", b"b", b"2")])
    again = rows.Rdict("/host/store", rows.SimOptions(), dict.fromkeys(FAMILIES))
    assert _rows(again, "entries") == [(b"a", b"1")]
