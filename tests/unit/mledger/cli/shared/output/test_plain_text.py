"""Text on terminals and in pipes of any encoding."""

import io
import json

import pytest

from mledger.cli.shared.output.plain_text import rate_text, write_any_character
from mledger.cli.shared.output.results import Output, OutputTable, columns

TOPICS = OutputTable("topics", columns("topic"), (("caf\u00e9 \u2603 \U0001f600",),))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("output_format", ["table", "json"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # the second is stdout's in the locale C
def test_a_name_is_written_though_the_encoding_lacks_its_characters(encoding, output_format, errors) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding, errors)
    write_any_character(stream)
    Output(output_format, stream).table(TOPICS)
    stream.flush()
    text = written.getvalue().decode(encoding)
    if output_format == "json":
        assert json.loads(text) == TOPICS.as_json()
    else:
        assert "caf" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1 / 60, "0.0167"), (3.14159, "3.14"), (99.96, "100"), (123456.789, "123457"), (0.00012, "<0.001")],
)
def test_a_rate_has_no_more_digits_than_people_read(value, shown) -> None:
    assert rate_text(value) == shown


def test_rates_are_rounded_in_tables_and_exact_in_json() -> None:
    rates = OutputTable("subscriptions", columns("msgRateOut"), ((1 / 3,),))
    shown = {}
    for output_format in ("table", "json"):
        stream = io.StringIO()
        Output(output_format, stream).table(rates)
        shown[output_format] = stream.getvalue()
    assert "0.333" in shown["table"]
    assert "0.3333" not in shown["table"]
    assert json.loads(shown["json"]) == [{"msgRateOut": 1 / 3}]
