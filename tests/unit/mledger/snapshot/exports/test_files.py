"""Parquet files of tables: texts have dictionaries, numbers have none."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.files import TableFile, text_columns
from mledger.snapshot.tables.row_builder import TABLES

ROWS = {
    "topics": {"topic": "persistent://t/n/a", "ledgers": 1, "properties": [("k", "v")]},
    "cursors": {"topic": "persistent://t/n/a", "holes": 0, "properties": [("k", 1)], "warnings": ["w"]},
    "ledgers": {"ledger_id": 7, "bookies": ["127.0.0.1:1"], "custom_metadata": [("k", "v")]},
}


@pytest.mark.parametrize("table", ROWS)
def test_texts_have_dictionaries_and_numbers_have_none(table, tmp_path):
    file = TableFile(local_place(tmp_path), table, "part")
    file.add(pa.RecordBatch.from_pylist([ROWS[table]] * 2, TABLES[table].schema))
    group = pq.read_metadata(tmp_path / file.finish().path).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    with_texts = {each.path_in_schema for each in columns if each.physical_type == "BYTE_ARRAY"}
    assert {each.path_in_schema for each in columns if each.has_dictionary_page} == with_texts
    assert set(text_columns(TABLES[table].schema)) == with_texts
