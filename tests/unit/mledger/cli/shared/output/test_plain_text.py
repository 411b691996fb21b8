"""Text on terminals and in pipes of any encoding."""

import io
import json

import pytest

from mledger.cli.shared.output.plain_text import write_any_character
from mledger.cli.shared.output.results import Output, OutputTable, columns

TOPICS = OutputTable("topics", columns("topic"), (("caf\u00e9 \u2603 \U0001f600",),))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("output_format", ["table", "json"])
def test_a_name_is_written_though_the_encoding_lacks_its_characters(encoding, output_format) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding)
    write_any_character(stream)
    Output(output_format, stream).table(TOPICS)
    stream.flush()
    text = written.getvalue().decode(encoding)
    if output_format == "json":
        assert json.loads(text) == TOPICS.as_json()
    else:
        assert "caf" in text
