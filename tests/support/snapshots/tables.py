"""Reads tables as lists of rows in a stable order."""

from mledger.metastore.store import MetadataStore
from mledger.snapshot.source.options import parse_options
from mledger.snapshot.source.table_reader import plan_tables, read_share, read_tables
from mledger.snapshot.tables.row_builder import TABLES

KEYS = {
    "topics": ("managed_ledger",),
    "topic_ledgers": ("managed_ledger", "index"),
    "cursors": ("managed_ledger", "cursor"),
    "cursor_holes": ("managed_ledger", "cursor", "index"),
    "ledgers": ("ledger_id",),
    "ensembles": ("ledger_id", "ensemble", "member"),
    "bookies": ("bookie_id",),
    "partitioned_topics": ("topic",),
    "underreplicated": ("ledger_id",),
    "errors": ("path",),
    "tenants": ("tenant",),
    "namespaces": ("namespace",),
    "schemas": ("topic",),
    "brokers": ("broker",),
    "bundles": ("namespace", "bundle"),
}
"""The key of a row."""


def read(options, *tables, columns=None):
    """The rows of these tables (all tables, if none is named) by table, each row a dict, ordered by their keys."""
    wanted = dict.fromkeys(tables or TABLES, columns)
    return _rows(read_tables(parse_options(options), wanted), wanted)


def read_in_shares(options, *tables):
    """The same rows, read as workers read them: planned, then share by share."""
    wanted = dict.fromkeys(tables or TABLES)
    parsed = parse_options(options)
    plan = plan_tables(parsed, list(wanted))
    return _rows((batch for share in plan.shares for batch in read_share(parsed, share, wanted, plan.rate)), wanted)


def one(options, table, **key):
    """The one row of a table that has these values."""
    found = [row for row in read(options, table)[table] if all(row[name] == value for name, value in key.items())]
    assert len(found) == 1, found
    return found[0]


def _rows(batches, wanted):
    rows = {name: [] for name in wanted}
    for name, batch in batches:
        assert batch.schema.equals(TABLES[name].schema_of(wanted[name])), name
        rows[name] += batch.to_pylist()
    return {
        name: sorted(found, key=lambda row, name=name: [row[column] for column in KEYS[name] if column in row])
        for name, found in rows.items()
    }


async def create_all(store: MetadataStore, nodes) -> None:
    """Create nodes, given as path to bytes, with their parents."""
    for path in sorted(nodes):
        await store.create(path, nodes[path], parents=True)
