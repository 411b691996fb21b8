"""Links between the documents lead somewhere, and the catalogue names every document."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
DOCUMENTS = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_of_the_project(document) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).resolve().is_relative_to(ROOT)
            assert (document.parent / target).exists(), target


def test_the_catalogue_has_one_line_for_each_page() -> None:
    lines = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S.*\.$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert sorted(lines) == sorted(str(path.relative_to(DOCS)) for path in DOCS.glob("*/*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_and_tools_that_a_document_names_are_there(document) -> None:
    named = re.findall(r"`((?:tests|tools|bench)/[\w/.-]+)`", document.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
