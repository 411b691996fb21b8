"""docs/spark.md says what the code does: every option, table and column, in its words."""

from pathlib import Path

from snapshot.assembling import TABLES
from snapshot.options import OPTIONS
from snapshot.recovering import GIVE_UP_AFTER

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark.md").read_text()


def section(name):
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n### ")[0].strip()


def test_every_option_is_there():
    documented = [f"| `{name}` | {doc} |" for name, doc in OPTIONS.items()]
    assert [line for line in PAGE.splitlines() if line in documented] == documented


def test_every_table_and_column_is_there():
    for table in TABLES.values():
        columns = "\n".join(f"| `{column.name}` | {column.sql_type} | {column.doc} |" for column in table.columns)
        assert section(table.name) == (
            f"One row: {table.doc}.\n\n| column | type | what |\n| --- | --- | --- |\n{columns}"
        ), table.name


def test_the_numbers_are_those_of_the_code():
    assert f"after {GIVE_UP_AFTER} topics in a row" in PAGE
