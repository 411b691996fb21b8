"""The rows of a node are found by its path, in every table that a snapshot has."""

import pyarrow as pa
import pytest

from mledger.snapshot.exports.since.row_keys import (
    ERRORS,
    KEYS,
    OWN_TABLES,
    READ_ANEW,
    RowMatch,
    any_of,
    key_of,
    places_anew,
    tables_anew,
    tables_of_kind,
)
from mledger.snapshot.tables.decoder import decode
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.row_builder import TABLES, Assembly, kinds_of
from mledger.snapshot.tables.scope import TopicScope
from tests.support.snapshots import varied_cluster

ROOT = "/ledgers"


def test_every_table_has_rows_of_one_kind_with_a_key_or_is_made_anew():
    found = [*tables_anew(), *(table for kind in KEYS for table in tables_of_kind(kind)), ERRORS]
    assert sorted(found) == sorted(TABLES)
    for table in set(TABLES) - {ERRORS, *tables_anew()}:
        assert len(kinds_of([table])) == 1


def test_every_kind_has_a_key_or_a_place_where_it_is_read_anew():
    assert READ_ANEW | KEYS.keys() == set(NodeKind)
    for path in varied_cluster.nodes():
        if kind_of(path, ROOT) in READ_ANEW:
            assert path.startswith(places_anew(ROOT))


@pytest.mark.parametrize("kind", KEYS)
def test_the_tables_of_a_kind_have_the_columns_of_its_key(kind):
    for table in tables_of_kind(kind):
        assert set(KEYS[kind]) <= set(TABLES[table].schema.names)
    assert {"created", "czxid", *KEYS[kind]} <= set(TABLES[OWN_TABLES[kind]].schema.names)


def test_the_key_of_a_node_is_that_of_its_rows():
    seen = set()
    for path, data in varied_cluster.nodes().items():
        kind = kind_of(path, ROOT)
        if kind is None or kind in READ_ANEW:
            continue
        assembly = Assembly(dict.fromkeys(TABLES), TopicScope(), ROOT)
        assembly.add_item(decode(kind, FoundNode(path, data, 0, 0, 0, 0), ROOT))
        for table, batch in assembly.rest():
            columns, key = (("path",), (path,)) if table == ERRORS else (KEYS[kind], key_of(kind, path, ROOT))
            rows = pa.Table.from_batches([batch])
            assert all(RowMatch(columns, frozenset([key])).mask(rows).to_pylist())
            seen.add(table)
    assert seen == set(TABLES) - set(tables_anew())


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (NodeKind.TOPIC, "/managed-ledgers/t/n/persistent/bad%name"),
        (NodeKind.LEDGER, "/ledgers/00/0009/stray"),
        (NodeKind.UNDERREPLICATED, "/ledgers/underreplication/ledgers/0000/0000/0000/0001/urLx"),
    ],
)
def test_a_path_that_is_never_readable_has_no_key(kind, path):
    assert key_of(kind, path, ROOT) is None


def test_two_columns_match_together():
    rows = pa.table({"managed_ledger": ["a", "a", "b", None], "cursor": ["s", "t", "s", "s"]})
    match = RowMatch(("managed_ledger", "cursor"), frozenset([("a", "t"), ("b", "t")]))
    assert match.mask(rows).to_pylist() == [False, True, False, False]


def test_any_of_several_matches_counts():
    rows = pa.table({"path": ["/a", "/b", "/c"]})
    matches = [RowMatch(("path",), frozenset([(path,)])) for path in ("/a", "/c")]
    assert any_of(matches, rows).to_pylist() == [True, False, True]
    assert any_of([], rows).to_pylist() == [False, False, False]
