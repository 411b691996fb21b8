"""Every node that Java left in the scenarios of tests/golden/znodes and tests/golden/behaviours."""

import pytest

from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.paths import (
    TopicName,
    cursor_name_from_path,
    cursor_path,
    ledger_id_from_path,
    ledger_path,
    managed_ledger_name_from_path,
    managed_ledger_path,
)
from tests.support.recordings import golden, golden_meaning

FILES = [file for file in golden.files("znodes/*.json") + golden.files("behaviours/*.json") if "/bk-" not in file]
TYPES = {"ManagedLedgerInfo", "ManagedCursorInfo", "LedgerMetadata"}


def read(node):
    """The node's meaning, its compression, and the bytes we write for it."""
    kind = node.decoded["type"]
    if kind == "ManagedLedgerInfo":
        topic = decode_managed_ledger_info(node.data, node.path)
        encoded = encode_managed_ledger_info(topic.value)
        return golden_meaning.managed_ledger_info(topic.value), topic.compression, encoded
    if kind == "ManagedCursorInfo":
        cursor = decode_managed_cursor_info(node.data, node.path)
        encoded = encode_managed_cursor_info(cursor.value)
        return golden_meaning.managed_cursor_info(cursor.value), cursor.compression, encoded
    metadata = decode_ledger_metadata(node.data, node.path)
    meaning = golden_meaning.ledger_metadata(ledger_id_from_path(node.path), metadata)
    return meaning, "NONE", encode_ledger_metadata(metadata)


@pytest.mark.parametrize("file", FILES)
def test_every_node_is_read_and_written_back(file):
    for node in golden.nodes(file):
        if node.decoded is None:
            # A topic whose creation was never finished, or a node between the topics.
            assert not node.data, str(node)
            continue
        assert node.decoded["type"] in TYPES, str(node)
        meaning, compression, encoded = read(node)
        assert meaning == node.decoded, str(node)
        if compression == "NONE":
            assert encoded == node.data, str(node)


@pytest.mark.parametrize("name", ["lz4", "zlib", "zstd", "snappy"])
def test_a_scenario_with_compression_has_compressed_nodes(name):
    seen = {
        read(node)[1]
        for variant in (0, 1)
        for node in golden.nodes(f"znodes/compression-{name}-{variant}.json")
        if node.decoded and node.decoded["type"] != "LedgerMetadata"
    }
    assert name.upper() in seen


@pytest.mark.parametrize("file", FILES)
def test_every_path_is_the_one_that_we_build_from_its_names(file):
    for node in golden.nodes(file):
        kind = node.decoded["type"] if node.decoded else None
        if kind == "LedgerMetadata":
            assert ledger_path(ledger_id_from_path(node.path)) == node.path
        elif kind == "ManagedLedgerInfo":
            name = managed_ledger_name_from_path(node.path)
            assert managed_ledger_path(name) == node.path
            topic = TopicName.of_managed_ledger(name)
            assert TopicName.parse(str(topic)).managed_ledger_path == node.path
        elif kind == "ManagedCursorInfo":
            topic_path, _, _ = node.path.rpartition("/")
            name = managed_ledger_name_from_path(topic_path)
            assert cursor_path(name, cursor_name_from_path(node.path)) == node.path
