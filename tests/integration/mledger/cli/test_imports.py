"""What a command imports: one that only reads does not load what only others need."""

import os
import subprocess
import sys

import pytest

from tests.support.aio import HANG_S
from tests.support.cli import ROOT, answer, ok
from tests.support.ports import environment_of_commands

SINGLE = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")
TELLS_MODULES = """
import sys
from mledger.cli.main import run

code = run(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
FOR_TABLES = {"rich"}
FOR_ARRAYS = {"numpy"}
FOR_OWNERS = {"mledger.cluster", "mledger.topics.managed_ledger", "prometheus_client", "fastavro"}
FOR_SERVERS = {"mledger.bookie.server", "psutil", "rocksdict"}
FOR_SNAPSHOTS = {"duckdb", "matplotlib", "pyarrow", "pyspark"}
FOR_WRITERS = {
    "mledger.bookie.client.client",
    "mledger.bookie.client.ledgers.ensembles.ensemble_changes",
    "mledger.bookie.client.ledgers.ledger_recovery",
    "mledger.bookie.client.ledgers.metadata.metadata_batches",
    "mledger.bookie.client.ledgers.replication",
    "mledger.bookie.client.ledgers.writer",
    "mledger.bookie.client.plans.placement",
    "mledger.bookie.client.plans.quorum",
}
FOR_CHECKS = {"mledger.bookie.client.checks.bookie_check", "mledger.bookie.client.checks.replica_check"}
NEVER = FOR_OWNERS | FOR_SERVERS | FOR_SNAPSHOTS | FOR_WRITERS | FOR_CHECKS
CLIENTS = {"google.protobuf", "kazoo", "mledger.admin.inspect", "mledger.bookie.client.reading_client"}


def loaded(*arguments: str, url: str = "") -> set[str]:
    """The modules that a command has imported by its end."""
    environment = environment_of_commands() | {"PYTHONPATH": str(ROOT), "MLEDGER_METADATA": url}
    command = [sys.executable, "-P", "-c", TELLS_MODULES, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, cwd=os.sep)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [(), ("topics",), ("cursors",), ("snapshot",)], ids=" ".join)
def test_help_of_groups_imports_no_command(arguments) -> None:
    found = loaded(*arguments, "--help")
    assert not found & (NEVER | FOR_TABLES | FOR_ARRAYS | CLIENTS)
    assert {name for name in found if name.startswith("mledger.cli.")} <= {
        name for name in found if name.startswith("mledger.cli.shared")
    } | {"mledger.cli.catalogue", "mledger.cli.main"}


@pytest.fixture(scope="module", params=["rocksdb", "zookeeper"])
def cluster(request, tmp_path_factory):
    """The URL of a cluster that `mledger up` started, with a topic `orders`, its cursor `billing` and an entry."""
    directory = tmp_path_factory.mktemp("cluster")
    metadata = ("--metadata", f"rocksdb:{directory / 'metadata'}") if request.param == "rocksdb" else ()
    url = answer("up", "--no-broker", "--dir", directory, "--bookies", 1, *metadata)["metadata"]
    ok("topics", "create", "orders", *SINGLE, url=url)
    ok("cursors", "create", "orders", "billing", *SINGLE, url=url)
    ok("topics", "produce", "orders", *SINGLE, url=url, stdin="one\n")
    yield url
    ok("down", "--dir", directory)


LOOKING = [
    ("topics", "list"),
    ("topics", "describe", "orders"),
    ("topics", "stats-internal", "orders"),
    ("topics", "read", "orders"),
    ("cursors", "list", "orders"),
    ("cursors", "describe", "orders", "billing"),
    ("ledgers", "list"),
    ("bookies", "list"),
    ("metadata", "tree"),
]


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_reading_commands_import_nothing_of_owners_writers_servers_and_snapshots(cluster, arguments) -> None:
    found = loaded(*arguments, "--output", "json", url=cluster)
    other_store = {"kazoo"} if cluster.startswith("rocksdb:") else {"mledger.metastore.rocksdb.store"}
    assert not found & (NEVER | FOR_TABLES | FOR_ARRAYS | other_store)


def test_a_progress_bar_that_no_terminal_shows_is_not_imported(cluster) -> None:
    assert not loaded("ledgers", "check", "--all", "--output", "json", url=cluster) & FOR_TABLES


def test_listing_topics_asks_no_bookie(cluster) -> None:
    assert not loaded("topics", "list", url=cluster) & {"mledger.admin.inspect", "mledger.bookie.client.reading_client"}
