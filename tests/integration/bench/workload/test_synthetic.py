"""The cluster that the benchmark makes: a real server starts from its file, and both give the same tables."""

import pytest

from bench.workload.synthetic import Sizes, nodes
from bench.workload.zookeeper_file import write_snapshot
from bench.workload.zookeeper_tree import start_server
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.snapshots import tables

SIZES = Sizes(topics=120, cursors=360, ledgers=600)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The file, and the directory that it is in."""
    directory = tmp_path_factory.mktemp("synthetic")
    return write_snapshot(directory / "files", nodes(SIZES)), directory


@pytest.fixture(scope="module")
def from_files(made):
    return tables.read({"metadata": f"file://{made[1]}/files"})


def test_a_server_started_on_the_file_gives_the_same_tables_as_the_file(made, from_files):
    written, directory = made
    with start_server(directory / "files", directory / "zookeeper", written.nodes) as server:
        live = tables.read_in_shares({"metadata": server.url})
        assert "zk_digest_mismatches_count\t0\n" in server.command("mntr")
    for name in TABLES:
        assert live[name] == from_files[name], name


def test_every_record_that_was_made_is_in_a_table(from_files):
    rows = {name: len(found) for name, found in from_files.items()}
    errors = {kind: sum(row["kind"] == kind for row in from_files["errors"]) for kind in ("topic", "cursor", "ledger")}
    assert errors == {"topic": 1, "cursor": 1, "ledger": 1}
    assert rows["topics"] + errors["topic"] == SIZES.topics
    assert rows["cursors"] + errors["cursor"] == SIZES.cursors
    assert rows["ledgers"] + errors["ledger"] == SIZES.ledgers
    assert min(rows.values()) > 0, rows


def test_records_are_of_many_forms(from_files):
    assert {row["format_version"] for row in from_files["ledgers"]} == {1, 2, 3}
    assert {row["state"] for row in from_files["ledgers"]} == {"OPEN", "CLOSED"}
    assert {row["ensembles"] for row in from_files["ledgers"]} == {1, 4}
    assert {row["state"] for row in from_files["cursors"]} == {"znode", "snapshot"}
    assert {row["ack_set"] is None for row in from_files["cursor_holes"]} == {True, False}
    assert {row["compression"] == "NONE" for row in from_files["topics"]} == {True, False}
    assert {row["partition"] is None for row in from_files["topics"]} == {True, False}
    assert {row["ledger_id"] >= 1 << 32 for row in from_files["ledgers"]} == {True, False}
    assert {row["state"] for row in from_files["bookies"]} == {"writable", "read-only", "away"}
