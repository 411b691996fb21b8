"""A test runs every command and program that the documents show, or a short list says why not."""

import re
from pathlib import Path

import pytest

from tests.support.commands.documents import ROOT, blocks_of, text_of
from tests.support.commands.transcripts import commands_of

DOCS = ROOT / "docs"
DOCUMENTS = sorted(["README.md", "CONTRIBUTING.md", *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))])
GUIDES = "tests/integration/mledger/cli/test_guides.py"
RUN_BY = {
    ("reference/cli.md", "console"): "tests/integration/mledger/cli/test_cli_documentation.py",
    ("reference/configuration.md", "console"): GUIDES,
    ("how-to/broker.md", "python"): "tests/integration/mledger/broker/test_broker_guide.py",
    ("how-to/containers.md", "console"): "tests/containers/test_containers.py",
    ("how-to/move-tests.md", "python"): "tests/integration/pytest_mledger/test_plugin.py",
    ("how-to/operators-guide.md", "console"): GUIDES,
    ("how-to/reports.md", "console"): GUIDES,
    ("how-to/reports.md", "python"): "tests/integration/mledger/snapshot/exports/test_iceberg_tables.py",
    ("how-to/spark.md", "python"): "tests/integration/mledger/snapshot/source/test_spark_guide.py",
    ("how-to/spark-clusters.md", "python"): "tests/integration/mledger/snapshot/exports/spark/test_connect.py",
    ("how-to/testing.md", "python"): "tests/integration/pytest_mledger/test_plugin.py",
    ("tutorials/python.md", "python"): "tests/integration/mledger/test_python_tutorial.py",
    ("tutorials/tour.md", "console"): GUIDES,
}
"""The test that runs all blocks of a language in a document."""
OTHERWISE = {
    "pip install '.[local]'": ("tools/setup", "installs the project so, editable, with another extra"),
    "pip install 'mledger[report]'": ("tools/setup", "the extra, installed from the checkout"),
    "pip install 'mledger[spark]'": ("tools/setup", "the extra, installed from the checkout"),
    "make demo": ("tests/integration/demo/test_demo.py", "run there"),
    "make test": (".ci/run", "runs this"),
    "make soak": ("tests/faults", "an hour; each run in small there"),
    "make fuzz": ("tests/fuzz/test_hostile_input.py", "minutes; in small there"),
    "python -m tests.fuzz": ("tests/fuzz/test_hostile_input.py", "minutes; in small there"),
    "make sim": ("tests/sim/test_simulation.py", "minutes; in small there"),
    "python -m tests.sim --without": ("tests/sim/test_removed_fixes.py", "recorded seeds there"),
    "mledger broker run": ("tests/integration/mledger/broker/process/test_main.py", "started there"),
    "mledger metadata run --dir DIR": ("tests/support/metadata/rocksdb.py", "a synopsis; started there"),
    "spark-submit": ("tests/containers/test_containers.py", "run there, on a cluster of containers"),
    "python -c 'from mledger.snapshot.exports.spark.package_archive": (
        "tests/support/snapshots/spark_cluster.py",
        "called there",
    ),
    "python3 -m venv env": ("tests/support/environments/installed.py", "made so there"),
    "env/bin/pip install": ("tests/support/environments/installed.py", "installed so there, in CI's versions"),
    "tar -C env": (
        "tests/integration/mledger/snapshot/exports/spark/test_spark_exporter_cluster.py",
        "this line is run there",
    ),
    "pip install 'mledger[connect]'": ("tools/setup", "the extra's packages are among those of the tests"),
    "mledger --metadata zk://zk-1:2181 snapshot export": (
        "tests/integration/mledger/snapshot/exports/spark/test_connect.py",
        "run there, through a server",
    ),
    "docker build --file deploy/spark/Dockerfile": ("deploy/spark/Dockerfile", "by hand; the guide says when"),
    "docker run --network host": ("deploy/spark/Dockerfile", "by hand; the guide says when"),
    "docker build --target pulsar": ("tools/containers/images", "built so there"),
    "docker compose -f compose.yaml -f compose.loopback.yaml up": (
        "tests/support/environments/containers.py",
        "run so there",
    ),
}
"""The first words of a command in an `sh` block, the place in the project that runs it, and a remark."""
SHELLS = ("sh", "bash", "shell", "")
COMMAND = re.compile(r"(?:mledger|python3?|pip|make|docker|docker-compose|spark-submit|bookkeeper|curl|kill) \S")


def shell_lines() -> list[tuple[str, int, str]]:
    """Document, line number and text of each command in a block that no transcript runs."""
    return [
        (name, block.line + number, line)
        for name in DOCUMENTS
        for block in blocks_of(name)
        if block.language in SHELLS
        for number, line in enumerate(block.text.splitlines(), 1)
        if (COMMAND.match(line) if block.language == "" else line.strip() and not line.startswith("#"))
    ]


def transcribed() -> set[str]:
    """Every command of a transcript that a test runs."""
    transcripts = [commands_of(text_of(name)) for name, language in RUN_BY if language == "console"]
    return {command.text for commands in transcripts for command in commands}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_test_runs_each_transcript_and_program_of_a_document(name) -> None:
    shown = {block.language for block in blocks_of(name) if block.language in ("console", "python")}
    assert {(name, language) for language in shown} == {key for key in RUN_BY if key[0] == name}


@pytest.mark.parametrize(("document", "language"), sorted(RUN_BY))
def test_the_test_that_runs_a_document_reads_it(document, language) -> None:
    assert f'"{document}"' in (ROOT / RUN_BY[document, language]).read_text()


def test_a_command_outside_of_transcripts_is_run_elsewhere_and_the_list_names_the_place() -> None:
    tested = transcribed()
    unknown = [
        (name, number, line)
        for name, number, line in shell_lines()
        if line not in tested and not line.startswith(tuple(OTHERWISE))
    ]
    assert unknown == []


def test_the_list_of_commands_run_elsewhere_names_existing_places_and_only_documented_commands() -> None:
    assert [place for place, _ in OTHERWISE.values() if not (ROOT / place).exists()] == []
    shown = [line for _, _, line in shell_lines()]
    assert [begin for begin in OTHERWISE if not any(line.startswith(begin) for line in shown)] == []


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "reference/cli.md"])
def test_no_command_hides_in_an_indented_block(name) -> None:
    """In cli.md these blocks are synopses."""
    lines = re.sub(r"^```.*?^```$", "", text_of(name), flags=re.DOTALL | re.MULTILINE).splitlines()
    assert [line for line in lines if line.startswith("    ") and COMMAND.match(line.strip())] == []


def test_a_document_elsewhere_shows_no_commands() -> None:
    others = [path for path in Path(ROOT).glob("*.md") if path.name not in DOCUMENTS]
    assert [path.name for path in others if "```" in path.read_text()] == []
