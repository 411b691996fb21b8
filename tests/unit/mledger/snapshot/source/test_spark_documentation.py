"""docs/reference/tables.md agrees with the code: every option, table and column, in the code's words."""

from pathlib import Path

from mledger.snapshot.source.options import OPTIONS
from mledger.snapshot.source.recovery import GIVE_UP_AFTER
from mledger.snapshot.tables.changes import CHANGES
from mledger.snapshot.tables.row_builder import TABLES

PAGE = (Path(__file__).resolve().parents[5] / "docs" / "reference/tables.md").read_text()


def section(name):
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n### ")[0].strip()


def test_every_option_is_documented():
    documented = [f"| `{name}` | {doc} |" for name, doc in OPTIONS.items()]
    assert [line for line in PAGE.splitlines() if line in documented] == documented


def test_every_table_and_column_is_documented():
    for table in (*TABLES.values(), CHANGES):
        columns = "\n".join(f"| `{column.name}` | {column.sql_type} | {column.doc} |" for column in table.columns)
        assert section(table.name) == (
            f"One row: {table.doc}.\n\n| column | type | what |\n| --- | --- | --- |\n{columns}"
        ), table.name


def test_the_numbers_are_those_of_the_code():
    assert f"after {GIVE_UP_AFTER} topics in a row" in PAGE
