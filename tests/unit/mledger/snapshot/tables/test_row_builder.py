"""Tables and their columns."""

import pytest

from mledger.metastore.records.paths import LEDGERS
from mledger.snapshot.tables.row_builder import TABLES, Assembly, kinds_of
from mledger.snapshot.tables.scope import TopicScope
from mledger.snapshot.zookeeper_files.errors import UnknownColumn, UnknownTable


def test_unknown_tables_and_columns_are_named():
    with pytest.raises(UnknownTable, match=r"'topic'.*topics"):
        kinds_of(["topic"])
    with pytest.raises(UnknownColumn, match="nothing"):
        Assembly({"topics": ["nothing"]}, TopicScope(), LEDGERS)


def test_every_column_is_documented_and_has_a_type_of_sql():
    for table in TABLES.values():
        assert table.doc
        assert len({column.name for column in table.columns}) == len(table.columns)
        assert all(column.doc and column.sql_type for column in table.columns)
