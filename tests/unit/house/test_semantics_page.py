"""`semantics.md`: each rule that is built has a row with code and a test that name it; other rules are marked."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/reference/semantics.md").read_text()
RULES = dict(re.findall(r"^- \*\*([MCRQD]\d+)\*\* (.*)$", TEXT, re.MULTILINE))
BUILT = [rule for rule, text in RULES.items() if not text.startswith("**Not built.**")]
PLACES = re.findall(r"^\| ([MCRQD]\d+) \| `(mledger/\S+\.py)` \| `(tests/\S+\.py)` \|$", TEXT, re.MULTILINE)


def test_the_rules_of_a_letter_are_numbered_without_gaps() -> None:
    for letter in "MCRQD":
        numbers = [int(rule[1:]) for rule in RULES if rule[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1))


def test_each_built_rule_has_a_row_and_no_other_rule_has() -> None:
    assert [rule for rule, _, _ in PLACES] == BUILT


@pytest.mark.parametrize(("rule", "code", "test"), PLACES)
def test_the_code_and_the_test_of_a_row_name_its_rule(rule, code, test) -> None:
    assert re.search(rf"\b{rule}\b", (ROOT / code).read_text())
    assert re.search(rf"\b{rule}\b", (ROOT / test).read_text())


def test_code_names_existing_rules_only() -> None:
    named = {
        (rule, path.relative_to(ROOT))
        for path in (ROOT / "mledger").rglob("*.py")
        for rule in re.findall(r"\((?:rule )?([MCRQD]\d+)[);,]", path.read_text())
    }
    assert {(rule, path) for rule, path in named if rule not in RULES} == set()
