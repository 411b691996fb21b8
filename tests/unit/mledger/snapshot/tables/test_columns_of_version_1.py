"""The columns of snapshots are only added to: these are the ones of schema version 1, which readers rely on."""

import pytest

from mledger.snapshot.exports.manifest import SCHEMA_VERSION
from mledger.snapshot.tables.row_builder import TABLES

SCHEMAS = {
    "topics": (
        "tenant string, namespace string, topic string, managed_ledger string, partitioned_topic string, partition"
        " int, version int, created timestamp, modified timestamp, ledgers int, entries bigint, size bigint, "
        "first_ledger_id bigint, last_ledger_id bigint, terminated_ledger_id bigint, terminated_entry_id bigint, "
        "properties map<string,string>, cursors int, compression string, text_form boolean"
    ),
    "topic_ledgers": (
        "tenant string, namespace string, topic string, managed_ledger string, index int, ledger_id bigint, last "
        "boolean, entries bigint, size bigint, closed timestamp, properties map<string,string>, offload_id string,"
        " offload_complete boolean, offload_deleted boolean, offloaded timestamp, offload_driver string, "
        "offload_properties map<string,string>, seen_entries bigint, seen_size bigint, unconfirmed boolean, error "
        "string"
    ),
    "cursors": (
        "tenant string, namespace string, topic string, managed_ledger string, cursor string, version int, created"
        " timestamp, modified timestamp, state string, cursor_ledger_id bigint, mark_delete_ledger_id bigint, "
        "mark_delete_entry_id bigint, holes int, partial_batches int, properties map<string,bigint>, "
        "cursor_properties map<string,string>, last_active timestamp, snapshot_ledger_id bigint, snapshot_entry_id"
        " bigint, backlog bigint, unconfirmed boolean, read_ledger_id bigint, read_entry_id bigint, source string,"
        " rules array<string>, moves_to_ledger_id bigint, moves_to_entry_id bigint, warnings array<string>, error "
        "string"
    ),
    "cursor_holes": (
        "tenant string, namespace string, topic string, managed_ledger string, cursor string, state string, index "
        "int, lower_ledger_id bigint, lower_entry_id bigint, upper_ledger_id bigint, upper_entry_id bigint, "
        "entries bigint, ack_set array<bigint>"
    ),
    "ledgers": (
        "ledger_id bigint, tenant string, namespace string, topic string, managed_ledger string, cursor string, "
        "version int, created timestamp, modified timestamp, state string, ensemble_size int, write_quorum int, "
        "ack_quorum int, last_entry bigint, length bigint, digest_type string, ctime timestamp, format_version "
        "int, ensembles int, bookies array<string>, custom_metadata map<string,string>"
    ),
    "ensembles": (
        "ledger_id bigint, tenant string, namespace string, topic string, ensemble int, first_entry bigint, "
        "last_entry bigint, member int, bookie_id string, entries bigint"
    ),
    "bookies": (
        "bookie_id string, state string, host string, port int, registered timestamp, rack string, instance_id "
        "string, journal_directory string, ledger_directories array<string>, cookie_version int"
    ),
    "partitioned_topics": (
        "tenant string, namespace string, topic string, version int, created timestamp, modified timestamp, "
        "partitions int, deleted boolean, properties map<string,string>"
    ),
    "underreplicated": (
        "ledger_id bigint, version int, created timestamp, modified timestamp, missing_replicas array<string>, "
        "since timestamp"
    ),
    "errors": (
        "path string, kind string, tenant string, namespace string, topic string, version int, created timestamp, "
        "modified timestamp, error string, bytes bigint, data binary"
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_of_schema_version_1_is_there_with_its_type_and_in_its_order(name):
    assert SCHEMA_VERSION == 1, "a column was removed or changes its meaning: hold the new version's columns here"
    known = SCHEMAS[name].split(", ")
    assert [column for column in TABLES[name].ddl.split(", ") if column in known] == known
