"""No golden file is forgotten: each is checked by tests that exist and name it, or waits for a named part."""

import ast
import fnmatch
import functools
import re
from pathlib import Path, PurePosixPath

import pytest

from tests.golden_coverage import CHECKED, WAITING
from tests.support.recordings.golden import ROOT

PROJECT = ROOT.parent.parent
FILES = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file() and path.name != "README.md"
)
ALL_SCENARIOS = "scenario_paths"
SCENARIO_FOLDERS = {"znodes", "behaviours", "entries"}


def matching(pattern):
    return [file for file in FILES if PurePosixPath(file).match(pattern) and file.count("/") == pattern.count("/")]


def files_of(line):
    left_out = getattr(line, "but", "")
    return [file for file in matching(line.pattern) if not left_out or file not in matching(left_out)]


@functools.cache
def texts_in(module):
    """All texts in a module's code, with the parts of formatted ones, and the names that it uses."""
    nodes = list(ast.walk(ast.parse((PROJECT / module).read_text(encoding="utf-8"))))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts, {node.id for node in nodes if isinstance(node, ast.Name)}


def names_file(module, file):
    """Whether the module names the file: by path, by pattern, by its case, or among all scenarios."""
    texts, names = texts_in(module)
    path = PurePosixPath(file)
    if ALL_SCENARIOS in names and path.parts[0] in SCENARIO_FOLDERS:
        return True
    case = re.sub(r"-\d$", "", path.stem)
    spellings = {file, path.stem, case, re.sub(r"^(v2|raw|recovery)-", "", case)}
    return any(
        text in spellings
        or ("*" in text and fnmatch.fnmatch(file, text))
        or ("/" in text and file.startswith(text) and text.count("-") >= case.count("-"))
        for text in texts
    )


def test_every_file_is_checked_or_waits():
    listed = {file for line in (*CHECKED, *WAITING) for file in files_of(line)}
    assert sorted(set(FILES) - listed) == []


def test_no_file_that_is_checked_waits():
    checked = {file for line in CHECKED for file in files_of(line)}
    waiting = {file for line in WAITING for file in files_of(line)}
    assert sorted(checked & waiting) == []


@pytest.mark.parametrize("line", [*CHECKED, *WAITING], ids=lambda line: line.pattern)
def test_every_pattern_matches_files(line):
    assert files_of(line)
    assert not getattr(line, "but", "") or matching(line.but)


@pytest.mark.parametrize("line", CHECKED, ids=lambda line: line.pattern)
def test_the_modules_that_check_exist_and_name_every_file(line):
    for module in line.modules:
        assert Path(module).name.startswith("test_"), f"pytest would not collect {module}"
        assert (PROJECT / module).exists(), f"{module} is not there"
        unnamed = [file for file in files_of(line) if not names_file(module, file)]
        assert unnamed == [], f"{module} does not name them"


def test_every_waiting_file_says_what_it_waits_for():
    assert all(line.waits_for for line in WAITING)
