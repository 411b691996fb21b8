"""Rows of tenants, namespaces, schemas, brokers and bundles, as Pulsar writes their nodes."""

import pytest

from mledger.metastore.records.paths import LEDGERS
from mledger.snapshot.tables.node_kinds import kind_of
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.row_builder import Assembly
from mledger.snapshot.tables.scope import TopicScope
from tests.support.snapshots.varied_cluster import ADMINISTRATION, BROKEN

STAT = {"version", "created", "modified", "czxid", "mzxid", "mtime"}


def rows(table, nodes=ADMINISTRATION):
    assembly = Assembly({table: None}, TopicScope(), LEDGERS)
    for path, data in nodes.items():
        kind = kind_of(path, LEDGERS)
        if kind is not None:
            assembly.add(kind, FoundNode(path, data, 3, 1000, 2000, 0))
    return [
        {name: value for name, value in row.items() if name not in STAT and value not in (None, [])}
        for _, batch in assembly.rest()
        for row in batch.to_pylist()
    ]


def test_a_tenant_has_its_roles_and_clusters_or_only_namespaces():
    assert rows("tenants") == [
        {"tenant": "golden", "admin_roles": ["dev", "ops"], "allowed_clusters": ["west"]},
        {"tenant": "other"},
        {"tenant": "third"},
    ]


def test_a_namespace_has_its_policies_as_columns_and_as_json():
    parts, old, deleted = rows("namespaces")
    assert parts.pop("policies").startswith('{"auth_policies"')
    assert parts == {
        "tenant": "golden",
        "namespace": "golden/parts",
        "retention_minutes": 60,
        "retention_mb": -1,
        "ensemble_size": 3,
        "write_quorum": 2,
        "ack_quorum": 2,
        "message_ttl_s": 3600,
        "backlog_quota_bytes": 1000,
        "backlog_quota_s": 600,
        "backlog_quota_policy": "producer_exception",
        "subscription_expiration_minutes": 90,
        "deduplication": True,
        "compaction_threshold": 4096,
        "offload_threshold": -1,
        "bundles": 2,
        "replication_clusters": ["east", "west"],
        "deleted": False,
    }
    assert (old["namespace"], old["bundles"]) == ("golden/cluster/ns0", 4)
    assert (deleted["namespace"], deleted["deleted"]) == ("other/ns", True)


def test_credentials_of_policies_are_hidden_wherever_they_are():
    secret = b'{"offload_policies":{"s3ManagedLedgerOffloadCredentialSecret":"s3cr3t","offloadDriver":"aws-s3"}}'
    (row,) = rows("namespaces", {"/admin/policies/t/n": secret})
    assert row["policies"] == (
        '{"offload_policies":{"s3ManagedLedgerOffloadCredentialSecret":"(hidden)","offloadDriver":"aws-s3"}}'
    )
    (row,) = rows("errors", {"/admin/policies/t/n": secret[:-1]})
    assert "data" not in row
    assert "s3cr3t" not in row["error"]


def test_a_schema_has_its_newest_version_and_all_ledgers():
    first, *_, last = rows("schemas")
    assert first == {
        "tenant": "golden",
        "namespace": "golden/parts",
        "topic": "persistent://golden/parts/o r",
        "schema_version": 1,
        "ledger_id": 9,
        "entry_id": 0,
        "hash": b"1",
        "schema_versions": [0, 1],
        "ledger_ids": [7, 9],
    }
    assert (last["topic"], last["schema_version"], last["ledger_ids"]) == ("persistent://other/ns/t", 4, [12])


def test_a_broker_has_what_it_said_and_nothing_of_a_wrong_type():
    full, newer, empty = rows("brokers")
    assert (full["broker"], full["service_url"], full["topics"], full["load_manager"]) == (
        "h:8080",
        "pulsar://h:6650",
        5,
        "ModularLoadManagerImpl",
    )
    assert full["started"].timestamp() == 1_700_000_000
    assert newer == {"broker": "i:8080", "service_url_tls": "pulsar+ssl://i:6651", "broker_version": "5.0"}
    assert empty == {"broker": "j:8080"}


def test_a_bundle_has_its_owner():
    first, second, old = rows("bundles")
    assert first == {
        "tenant": "golden",
        "namespace": "golden/parts",
        "bundle": "0x00000000_0x80000000",
        "service_url": "pulsar://h:6650",
        "web_url": "http://h:8080",
        "disabled": False,
    }
    assert (second["disabled"], old["namespace"]) == (True, "golden/cluster/ns0")


@pytest.mark.parametrize("path", [path for path in BROKEN if path.startswith(("/admin/policies", "/schemas", "/load"))])
def test_a_node_that_cannot_be_read_is_in_errors_with_its_path(path):
    (row,) = rows("errors", {path: BROKEN[path]})
    assert row["path"] == path
    assert path in row["error"]
