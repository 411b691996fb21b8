"""Links between the documents lead somewhere, and the catalogue names every document."""

import re
from pathlib import Path

import click
import pytest

import mledger
from mledger.cli.main import command as mledger_command

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
def test_tests_and_tools_that_a_document_names_exist(document) -> None:
    named = re.findall(r"`((?:tests|tools|bench)/[\w/.-]+)`", document.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_api_reference_documents_everything_that_mledger_exports() -> None:
    page = (DOCS / "reference/api.md").read_text()
    shown = set(re.findall(r"^\.\. auto\w+:: mledger\.(\w+)$", page, re.MULTILINE))
    assert shown - {"snapshot"} == set(mledger.__all__)


def test_the_speed_in_readme_is_a_row_of_the_benchmarks() -> None:
    speed = (ROOT / "README.md").read_text().partition("## Speed")[2].partition("##")[0]
    measured = (DOCS / "reference/benchmarks.md").read_text()
    times = re.findall(r"([\d,]+) ms", speed)
    assert len(times) == 2
    assert re.search(rf"all cursors recovered \| {times[0]}\.\d \| ms \|[^|]+\| {times[1]} \|", measured)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_a_document_names_exist(document) -> None:
    if document.name == "CHANGELOG.md":
        return
    nouns = {name: found for name, found in mledger_command.commands.items() if isinstance(found, click.Group)}
    named = re.findall(rf"`mledger ({'|'.join(nouns)}) ([a-z-]+)", document.read_text())
    assert [(noun, verb) for noun, verb in named if verb not in nouns[noun].commands] == []
