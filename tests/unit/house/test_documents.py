"""Links between the documents lead somewhere, and README names every document."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_of_the_project(document) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).resolve().is_relative_to(ROOT)
            assert (document.parent / target).exists(), target


def test_readme_names_every_document() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in DOCUMENTS if path.name != "README.md" and path.name not in readme] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_and_tools_that_a_document_names_are_there(document) -> None:
    named = re.findall(r"`((?:tests|tools|bench)/[\w/.-]+)`", document.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
