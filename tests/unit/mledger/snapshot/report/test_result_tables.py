"""Results of queries as tables of a page."""

import pyarrow as pa

from mledger.snapshot.report.result_tables import Cell, result_table
from mledger.snapshot.sql.queries import Query

QUERY = Query("q", "Title", "Doc", "select 1")


def test_numbers_are_for_people_with_what_they_are_sorted_by():
    result = pa.table({"topic": ["a", None], "bytes_change": [-2048, 0], "age_s": [60, None], "ledger_id": [1234, 5]})
    table = result_table(QUERY, result, 2)
    assert table.rows == [
        (Cell("a"), Cell("\N{MINUS SIGN}2.0 KiB", "-2048"), Cell("1 min", "60"), Cell("1234", "1234")),
        (Cell("-"), Cell("0 B", "0"), Cell("-", ""), Cell("5", "5")),
    ]
    assert [(each.text, each.is_number, each.is_filtered) for each in table.headings] == [
        ("topic", False, True),
        ("bytes change", True, False),
        ("age", True, False),
        ("ledger id", True, False),
    ]


def test_the_count_says_how_many_are_not_shown():
    result = pa.table({"n": [1, 2]})
    assert result_table(QUERY, result, 2).count == "2 in all"
    assert result_table(QUERY, result, 1234).count == "1,234 in all, the first 2 shown"
    assert result_table(QUERY, result.slice(0, 0), 0).count == "none"


def test_a_namespace_leads_to_its_page():
    table = result_table(QUERY, pa.table({"namespace": ["t/n"]}), 1, lambda name: f"{name}.html")
    assert table.rows == [(Cell("t/n", link="t/n.html"),)]
