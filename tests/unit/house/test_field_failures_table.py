"""The table of failures seen in the field names its tests, each once, and the tests name the reports."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"\| ((?:pulsar|bookkeeper)-\d+[^|]*) \|.*\| `(test_\w+)` \|")


def rows() -> dict[str, set[str]]:
    """The reports in the row of each test."""
    found = ROW.findall((ROOT / "docs/reference/field-failures.md").read_text())
    assert len({test for _, test in found}) == len(found)
    return {test: set(reports.split(", ")) for reports, test in found}


def known_tests() -> dict[str, str]:
    """The docstring of every test in `tests/field_failures/`."""
    return {
        each.name: ast.get_docstring(each) or ""
        for path in (ROOT / "tests/field_failures").glob("test_*.py")
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    }


def test_each_row_names_a_test_and_each_test_has_a_row() -> None:
    assert rows().keys() == known_tests().keys()


def test_each_test_names_the_reports_that_it_reproduces() -> None:
    said = known_tests()
    for name, reports in rows().items():
        assert set(re.findall(r"(?:pulsar|bookkeeper)-\d+", said[name])) == reports, name
