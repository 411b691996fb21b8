"""A class name has one meaning, a test has the path of its module, and files and folders stay small."""

import ast
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

PRODUCT = ("mledger", "pyspark_mledger", "pytest_mledger")
TREE = (*PRODUCT, "bench", "demo", "tests", "tools")
MOST_LINES = 450
MOST_MODULES = 18  # in a folder, without tests

MIRRORED = {"support": "tests/support"}
"""Where the modules of a folder of tests are, if not at the same path below the root."""
NOT_MIRRORED = {
    "tests/integration/installed": "tests the wheel, not a package",
    "tests/unit/golden": "compares Java's recordings with the index of them",
    "tests/unit/house": "tests the rules of the project",
}
WHOLE_PACKAGES = {
    "tests/integration/bench/test_benchmarks.py": "runs every benchmark",
    "tests/integration/demo/test_demo.py": "runs the demo as its user does",
    "tests/integration/mledger/bookie/server/serving/test_serving.py": "sends requests to a bookie process",
    "tests/integration/mledger/bookie/server/test_kill_9.py": "kills a bookie under load",
    "tests/integration/mledger/broker/test_broker_guide.py": "runs the programs of the guide",
    "tests/integration/mledger/cli/shared/test_common_options.py": "options that every command has",
    "tests/integration/mledger/cli/test_bad_input.py": "exit codes of many commands",
    "tests/integration/mledger/cli/test_cli_documentation.py": "runs the examples of cli.md",
    "tests/integration/mledger/cli/test_guides.py": "runs the examples of the guides",
    "tests/integration/mledger/cli/test_imports.py": "what each command imports",
    "tests/integration/mledger/cli/test_read_only_commands.py": "every command that only reads",
    "tests/integration/mledger/cli/test_servers_down.py": "every command, without ZooKeeper or bookies",
    "tests/integration/mledger/cli/topics/test_partitioned_topics.py": "all commands, on partitioned topics",
    "tests/integration/mledger/cli/topics/test_segment_topics.py": "all commands, on segments of scalable topics",
    "tests/integration/mledger/cli/topics/test_shadow_topics.py": "all commands, on shadow topics",
    "tests/integration/mledger/exporter/test_deployed_files.py": "the alert rules and the dashboard of `deploy/`",
    "tests/integration/mledger/snapshot/exports/test_snapshots_on_hdfs.py": "reads files from HDFS and exports to it",
    "tests/integration/mledger/snapshot/exports/test_snapshots_on_s3.py": "reads files from S3 and exports to it",
    "tests/integration/mledger/snapshot/zookeeper_files/test_real_server.py": "a server's files, its exact tree",
    "tests/integration/mledger/standalone/test_deployed_files.py": "the files of `deploy/standalone/`",
    "tests/integration/mledger/test_cancelled_writes.py": "cancelled calls of topics, cursors and undo",
    "tests/integration/mledger/test_crash_points.py": "kills an owner at each step; the next owner cleans up",
    "tests/integration/mledger/test_documented_run.py": "a restart of a Pulsar broker that is documented",
    "tests/integration/mledger/test_killed_at_every_step.py": "kills an owner at every step of each operation",
    "tests/integration/mledger/test_long_ledger_lists.py": "deletes, drops and repairs lists of thousands of ledgers",
    "tests/integration/mledger/test_python_tutorial.py": "runs the programs of the tutorial",
    "tests/integration/mledger/topics/test_cancelled_calls.py": "cancelled and concurrent calls of a topic",
    "tests/integration/mledger/topics/test_concurrent_calls.py": "all operations of a topic at the same time",
    "tests/integration/mledger/topics/test_many_topics.py": "many topics in one process",
    "tests/integration/mledger/topics/test_metadata_outages.py": "an open topic while the metadata store is down",
    "tests/integration/mledger/topics/test_recreated_topics.py": "an owner whose topic was deleted and created again",
    "tests/integration/mledger/topics/test_topic_settings.py": "settings of a topic, each by its effect",
    "tests/unit/mledger/bookie/test_golden_entries.py": "entries that Java wrote: digests, ids and cursor states",
    "tests/unit/mledger/bookie/test_golden_wire.py": "frames that Java sent, through our whole server",
    "tests/unit/mledger/cursors/test_golden_behaviours.py": "calls of Java's cursors: positions, acks and trimming",
    "tests/unit/mledger/metastore/cluster/test_golden_cluster.py": "BookKeeper's nodes, of every kind",
    "tests/unit/mledger/metastore/records/test_golden_znodes.py": "nodes that Java wrote: codecs and paths",
    "tests/unit/mledger/snapshot/tables/test_golden_nodes.py": "nodes that Java wrote, as rows of every table",
    "tests/unit/mledger/snapshot/zookeeper_files/test_golden_zookeeper_files.py": "ZooKeeper's files, replayed",
    "tests/unit/mledger/test_golden_scenarios.py": "dumps of Java's topics: opening, recovery and trimming",
    "tests/unit/mledger/test_public_names.py": "what `import mledger` loads",
}
"""Files of tests that show what several modules do together, each with what it tests."""
PARTICIPLES = {
    "mledger/bookie/client/connections/rack_mapping.py": "a mapping is a thing; BookKeeper's word",
    "mledger/cli/cursors/opening.py": "commands that open the topic",
    "mledger/topics/opening.py": "an opening is a thing: it is given up and waited for",
}


def python_files(*roots):
    """The tracked Python files, without generated ones."""
    found = subprocess.run(["git", "ls-files", *(f"{root}/*.py" for root in roots)], capture_output=True, check=True)
    files = [Path(line) for line in found.stdout.decode().splitlines()]
    return [file for file in files if not file.stem.endswith("_pb2") and file.exists()]


def classes():
    """The files of each public class of the whole tree, by name."""
    homes = defaultdict(list)
    for file in python_files(*TREE):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(file))
    return homes


def test_a_public_class_name_has_one_meaning():
    twice = {name: found for name, found in classes().items() if len(found) > 1}
    assert not twice, f"name each class for what it is of: {twice}"


def modules_beside(test):
    """The names of the modules that a test at this path can be named after."""
    room = Path(*test.parts[2:-1])
    folder = Path(MIRRORED.get(room.parts[0], room.parts[0]), *room.parts[1:])
    return {module.stem for module in folder.glob("*.py")} - {"__init__"}


def is_named_after_a_module(test):
    """Whether the name is `test_<module>` or `test_<module>_<aspect>`."""
    subject = test.stem.removeprefix("test_")
    return any(f"{subject}_".startswith(f"{module}_") for module in modules_beside(test))


def files_of_tests():
    """The files of tests that belong to a module or to a whole package."""
    files = python_files("tests/unit", "tests/integration")
    return [file for file in files if file.name.startswith("test_") and str(file.parent) not in NOT_MIRRORED]


def test_a_module_s_tests_are_found_by_its_path():
    misplaced = [
        str(file) for file in files_of_tests() if str(file) not in WHOLE_PACKAGES and not is_named_after_a_module(file)
    ]
    assert not misplaced, (
        f"name each test_<module>[_<aspect>].py at its module's path, or add it to WHOLE_PACKAGES: {misplaced}"
    )


def test_the_list_of_tests_of_whole_packages_is_up_to_date():
    needed = {str(file) for file in files_of_tests() if not is_named_after_a_module(file)}
    stale = set(WHOLE_PACKAGES) - needed
    assert not stale, f"these are gone, or are named after a module: {stale}"


def test_no_file_is_long():
    files = python_files(*TREE)
    lines = {str(file): len(file.read_text().splitlines()) for file in files}
    long = {file: count for file, count in lines.items() if count > MOST_LINES}
    assert not long, f"split these by subject, {MOST_LINES} lines are the most: {long}"


def test_no_module_is_named_by_a_participle():
    files = python_files(*PRODUCT)
    found = [str(file) for file in files if file.stem.endswith("ing") and str(file) not in PARTICIPLES]
    assert not found, f"a module is named by a noun of the field; else say in PARTICIPLES why: {found}"


def test_no_folder_is_crowded():
    files = [file for file in python_files(*TREE) if file.name != "__init__.py" and not file.name.startswith("test_")]
    modules = Counter(str(file.parent) for file in files)
    crowded = {folder: count for folder, count in modules.items() if count > MOST_MODULES}
    assert not crowded, f"divide these, {MOST_MODULES} modules are the most of a folder: {crowded}"
