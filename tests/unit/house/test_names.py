"""Names and places: a class has one meaning, a test stands where its subject does, a file and a folder stay small."""

import ast
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

PRODUCT = ("mledger", "pyspark_mledger", "pytest_mledger")
MOST_LINES = 450
MOST_MODULES = 20  # of a folder

SHARED_CLASSES = {"Bookie": "the plugin's public API: a bookie of a test's cluster is called as what it is"}
NOT_MIRRORED = {
    "tests/integration/installed": "tests the wheel, not a package",
    "tests/unit/golden": "holds Java's recordings to the index of them",
    "tests/unit/house": "holds the project to its rules",
}
PARTICIPLES = {
    "mledger/bookie/client/connections/rack_mapping.py": "a mapping is a thing; BookKeeper's word",
    "mledger/cli/cursors/opening.py": "commands that open the topic",
    "mledger/topics/opening.py": "an opening is a thing: it is given up and waited for",
}


def python_files(*roots):
    """Those that the project keeps, but for generated ones."""
    found = subprocess.run(["git", "ls-files", *(f"{root}/*.py" for root in roots)], capture_output=True, check=True)
    files = [Path(line) for line in found.stdout.decode().splitlines()]
    return [file for file in files if not file.stem.endswith("_pb2") and file.exists()]


def test_a_public_class_name_has_one_meaning():
    homes = defaultdict(list)
    for file in python_files(*PRODUCT):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(file))
    twice = {name: found for name, found in homes.items() if len(found) > 1 and name not in SHARED_CLASSES}
    assert not twice, f"name each class for what it is of, or say in SHARED_CLASSES why the name is shared: {twice}"


def test_a_name_that_is_shared_on_purpose_is_shared():
    counts = Counter(
        node.name
        for file in python_files(*PRODUCT)
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    stale = [name for name in SHARED_CLASSES if counts[name] < 2]
    assert not stale, f"no longer two classes: take them out of SHARED_CLASSES: {stale}"


def test_tests_stand_at_the_path_of_what_they_test():
    misplaced = []
    for file in python_files("tests/unit", "tests/integration"):
        subject = Path(*file.parts[2:-1])
        mirrored = (subject / "__init__.py").exists() or next(subject.glob("*.py"), None) is not None
        if file.name.startswith("test_") and str(file.parent) not in NOT_MIRRORED and not mirrored:
            misplaced.append(f"{file}: there is no package {subject}")
    assert not misplaced, f"move these, or say in NOT_MIRRORED why: {misplaced}"


def test_no_file_is_long():
    files = python_files(*PRODUCT, "bench", "demo", "tests", "tools")
    lines = {str(file): len(file.read_text().splitlines()) for file in files}
    long = {file: count for file, count in lines.items() if count > MOST_LINES}
    assert not long, f"split these by subject, {MOST_LINES} lines are the most: {long}"


def test_no_module_is_named_by_a_participle():
    files = python_files(*PRODUCT)
    found = [str(file) for file in files if file.stem.endswith("ing") and str(file) not in PARTICIPLES]
    assert not found, f"a module is named by a noun of the field; else say in PARTICIPLES why: {found}"


def test_no_folder_is_crowded():
    modules = Counter(str(file.parent) for file in python_files(*PRODUCT) if file.name != "__init__.py")
    crowded = {folder: count for folder, count in modules.items() if count > MOST_MODULES}
    assert not crowded, f"divide these, {MOST_MODULES} modules are the most of a folder: {crowded}"
