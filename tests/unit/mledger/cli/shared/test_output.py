"""One result shown as a table and as JSON."""

import io
import json

import pytest

from mledger.cli.shared.output import Output, Record, Table, as_text, columns, fields, shorten

TOPICS = Table("topics", columns("topic", "entries"), (("a", 3), ("b [red]", None)))


def test_a_list_is_an_array_of_objects_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").table(TOPICS)
    assert json.loads(capsys.readouterr().out) == [{"topic": "a", "entries": 3}, {"topic": "b [red]", "entries": None}]


def test_a_table_in_a_pipe_is_neither_folded_nor_read_as_markup() -> None:
    stream = io.StringIO()
    Output("table", stream).table(Table("topics", columns("topic"), (("[red]" + "x" * 300,),)))
    assert "[red]" + "x" * 300 in stream.getvalue()


def test_a_record_is_one_object_with_its_tables_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").record(Record(fields(name="é", properties={"k": 1}), (TOPICS,)))
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"name": "é", "properties": {"k": 1}, "topics": TOPICS.as_json()}


def test_words_for_people_are_left_out_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").line("created it")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), ("", "-"), ((), "-"), ({}, "-"), (True, "yes"), (("a", 1), "a, 1"), ({"k": "v"}, "k=v"), (0, "0")],
)
def test_values_in_a_table(value: object, text: str) -> None:
    assert as_text(value) == text  # type: ignore[arg-type]


def test_long_lists_say_how_many_more_there_are() -> None:
    assert shorten(["a", "b", "c"], 2) == "a, b and 1 more"
    assert shorten(["a"], 2) == "a"


def test_times_are_dates_for_people_and_milliseconds_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("ledgers", columns("ledger_id", "closed_ms"), ((7, 1_700_000_000_123), (8, None)))
    Output("table").table(table)
    assert capsys.readouterr().out.split() == ["ledger", "id", "closed", "7", "2023-11-14", "22:13:20Z", "8", "-"]
    assert table.as_json()[0]["closed_ms"] == 1_700_000_000_123
