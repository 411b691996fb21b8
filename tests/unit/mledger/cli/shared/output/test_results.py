"""One result shown as a table and in each format for programs."""

import csv
import io
import json

import pytest
import yaml

from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, as_text, columns, fields

TOPICS = OutputTable("topics", columns("topic", "entries"), (("a", 3), ("b [red]", None)))


def test_a_list_is_an_array_of_objects_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").table(TOPICS)
    assert json.loads(capsys.readouterr().out) == [{"topic": "a", "entries": 3}, {"topic": "b [red]", "entries": None}]


def test_a_table_in_a_pipe_is_neither_folded_nor_read_as_markup() -> None:
    stream = io.StringIO()
    Output("table", stream).table(OutputTable("topics", columns("topic"), (("[red]" + "x" * 300,),)))
    assert "[red]" + "x" * 300 in stream.getvalue()


def test_a_record_is_one_object_with_its_tables_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").record(OutputRecord(fields(name="é", properties={"k": 1}), (TOPICS,)))
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"name": "é", "properties": {"k": 1}, "topics": TOPICS.as_json()}


@pytest.mark.parametrize(
    ("named", "tables"), [(fields(topics=2), (TOPICS,)), ((), (TOPICS, TOPICS))], ids=["field", "table"]
)
def test_no_table_takes_the_place_of_what_has_its_name_in_json(named, tables) -> None:
    with pytest.raises(ValueError, match="'topics'"):
        OutputRecord(named, tables).as_json()


@pytest.mark.parametrize("output_format", ["json", "ndjson", "csv", "yaml"])
def test_words_for_people_are_left_out_of_formats_for_programs(
    output_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(output_format).line("created it")
    assert capsys.readouterr().out == ""


HOSTILE = {"name": 'a,"b"\n\u2028é: - #', "known": None, "whole": True, "of": ("x", "1"), "pairs": {"k": "yes"}}
KEYS = tuple(HOSTILE)
ROWS = OutputTable("rows", columns(*KEYS), (tuple(HOSTILE.values()), tuple(HOSTILE.values())))
AS_JSON = json.loads(json.dumps(HOSTILE))
AS_CELLS = {
    "name": HOSTILE["name"],
    "known": "",
    "whole": "true",
    "of": '["x", "1"]',
    "pairs": '{"k": "yes"}',
}


def test_ndjson_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output("ndjson").table(ROWS)
    assert [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]] == [AS_JSON, AS_JSON]


def test_ndjson_of_a_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output("ndjson").record(OutputRecord(fields(name="a"), (TOPICS,)))
    assert json.loads(capsys.readouterr().out) == {"name": "a", "topics": TOPICS.as_json()}


def test_csv_has_a_header_and_preserves_every_value(capsys: pytest.CaptureFixture[str]) -> None:
    Output("csv").table(ROWS)
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out, newline="")))
    assert read == [AS_CELLS, AS_CELLS]


def test_csv_of_an_empty_list_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    Output("csv").table(OutputTable("topics", columns("topic", "entries"), ()))
    assert capsys.readouterr().out == "topic,entries\n"


def test_csv_of_a_record_holds_its_tables_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output("csv").record(OutputRecord(fields(name="a"), (TOPICS,)))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["name"] == "a"
    assert json.loads(row["topics"]) == TOPICS.as_json()


def test_csv_of_a_stream_has_one_header_and_leaves_missing_fields_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output("csv")
    output.item(("a", "b"), {"a": 1})
    output.item(("a", "b"), {"b": 2, "a": 3})
    assert capsys.readouterr().out == "a,b\n1,\n3,2\n"


def test_yaml_preserves_every_value(capsys: pytest.CaptureFixture[str]) -> None:
    Output("yaml").table(ROWS)
    assert yaml.safe_load(capsys.readouterr().out) == [AS_JSON, AS_JSON]


def test_yaml_of_a_stream_is_one_document_per_object(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("yaml")
    output.item(KEYS, HOSTILE)
    output.item(KEYS, HOSTILE)
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [AS_JSON, AS_JSON]


def test_a_stream_without_words_for_people_is_one_line_of_json_per_object(capsys: pytest.CaptureFixture[str]) -> None:
    Output("table").item(("a",), {"a": 1})
    assert capsys.readouterr().out == '{"a": 1}\n'


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'xml' is not an output format: use one of table, json, ndjson, csv, yaml"):
        Output("xml")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), ("", "-"), ((), "-"), ({}, "-"), (True, "yes"), (("a", 1), "a, 1"), ({"k": "v"}, "k=v"), (0, "0")],
)
def test_values_in_a_table(value: object, text: str) -> None:
    assert as_text(value) == text  # type: ignore[arg-type]


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert as_text(("a\x1b[2J\r", {"k\n": "\x9b"})) == r"a\x1b[2J\r, k\n=\x9b"


def test_a_time_beyond_all_dates_is_a_number() -> None:
    (closed,) = columns("closed_ms")
    assert closed.as_text(2**62) == str(2**62)


def test_times_are_dates_for_people_and_milliseconds_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = OutputTable("ledgers", columns("ledger_id", "closed_ms"), ((7, 1_700_000_000_123), (8, None)))
    Output("table").table(table)
    assert capsys.readouterr().out.split() == ["ledger", "id", "closed", "7", "2023-11-14", "22:13:20Z", "8", "-"]
    assert table.as_json()[0]["closed_ms"] == 1_700_000_000_123
