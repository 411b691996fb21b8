"""Iterators of RocksDB over damaged tables."""

import pytest
from rocksdict import BlockBasedOptions, Cache, Options, Rdict

from mledger.metastore.runtime.rocksdb_iterators import at_row, scan


def write_rows(path):
    options = Options(raw_mode=True)
    table = BlockBasedOptions()
    table.set_block_size(1024)
    options.set_block_based_table_factory(table)
    database = Rdict(str(path), options)
    for number in range(1000):
        database[number.to_bytes(4, "big")] = bytes(100)
    database.flush()
    database.close()
    (table,) = path.glob("*.sst")
    return table


def count_rows(path):
    database = Rdict(str(path), Options(raw_mode=True))
    rows, found = database.iter(), 0
    rows.seek_to_first()
    try:
        while at_row(rows):
            found += 1
            rows.next()
    finally:
        del rows
        database.close()
    return found


def test_every_row_of_a_sound_table_is_read(tmp_path):
    write_rows(tmp_path / "rows")
    assert count_rows(tmp_path / "rows") == 1000


def test_unreadable_rows_are_an_error_and_not_the_end(tmp_path):
    table = write_rows(tmp_path / "rows")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    with pytest.raises(Exception, match="Corruption"):
        count_rows(tmp_path / "rows")


@pytest.mark.parametrize(("iterate", "fills"), [(scan, False), (Rdict.iter, True)], ids=["scan", "iter"])
def test_only_a_scan_leaves_the_cache_to_rows_that_are_read_often(tmp_path, iterate, fills):
    write_rows(tmp_path / "rows")
    options, table = Options(raw_mode=True), BlockBasedOptions()
    table.set_block_cache(Cache(1 << 20))
    options.set_block_based_table_factory(table)
    database = Rdict(str(tmp_path / "rows"), options)
    before, rows = database.property_int_value("rocksdb.block-cache-usage"), iterate(database)
    rows.seek_to_first()
    while at_row(rows):
        rows.next()
    del rows
    assert (database.property_int_value("rocksdb.block-cache-usage") > before + 50_000) is fills
    database.close()
