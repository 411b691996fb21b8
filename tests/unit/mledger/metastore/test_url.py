"""Which metadata URLs are accepted, and how the others are refused."""

import os

import pytest

from mledger.metastore.errors import InvalidMetadataUrl
from mledger.metastore.url import MemoryUrl, RocksDbUrl, SplitUrl, ZooKeeperUrl, parse_url


@pytest.mark.parametrize(
    ("url", "hosts", "chroot"),
    [
        ("zk://host:2181", (("host", 2181),), ""),
        ("zk://host", (("host", 2181),), ""),
        ("zk://host:2181/", (("host", 2181),), ""),
        ("zk://a:1,b:2,c/deep/chroot", (("a", 1), ("b", 2), ("c", 2181)), "/deep/chroot"),
        ("zk:a:1,b:2/chroot/", (("a", 1), ("b", 2)), "/chroot"),
        ("ZK://[::1]:2181/chroot", (("[::1]", 2181),), "/chroot"),
    ],
)
def test_an_ensemble_and_its_chroot(url, hosts, chroot):
    assert parse_url(url) == ZooKeeperUrl(hosts, chroot)


def test_a_url_is_written_in_one_way():
    assert str(parse_url("zk:a,b:2/chroot/")) == "zk://a:2181,b:2/chroot"
    assert str(parse_url("memory:name")) == "memory:name"


def test_memory_by_name():
    assert parse_url("memory:name") == MemoryUrl("name")
    assert parse_url("memory:") == MemoryUrl("")


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("rocksdb:/var/metadata", "/var/metadata"),
        ("rocksdb:/var/metadata/", "/var/metadata"),
        ("rocksdb:///var/metadata", "/var/metadata"),
        ("RocksDB:below/here", "below/here"),
    ],
)
def test_a_directory_of_a_rocksdb_server(url, directory):
    parsed = parse_url(url)
    assert parsed == RocksDbUrl(os.path.abspath(directory))
    assert str(parsed) == f"rocksdb:{os.path.abspath(directory)}"


@pytest.mark.parametrize(
    ("url", "root", "written"),
    [
        ("zk://a/chroot?ledgers=zk://b/bk/ledgers", "/bk/ledgers", "zk://a:2181/chroot?ledgers=zk://b:2181/bk/ledgers"),
        (
            "zk://a?config=/c&ledgers=zk:b?config=/d",
            "/ledgers",
            "zk://a:2181?config=/c&ledgers=zk://b:2181/ledgers?config=/d",
        ),
        ("rocksdb:/a?ledgers=rocksdb:/b", "/ledgers", "rocksdb:/a?ledgers=rocksdb:/b"),
        ("memory:a?ledgers=zk+hierarchical://b:1;c:2/l", "/l", "memory:a?ledgers=zk://b:1,c:2/l"),
        ("zk:a?ledgers=metadata-store:zk:b:1/l", "/l", "zk://a:2181?ledgers=zk://b:1/l"),
    ],
)
def test_ledgers_in_a_store_of_their_own(url, root, written):
    parsed = parse_url(url)
    assert isinstance(parsed, SplitUrl)
    assert parsed.root == root
    assert str(parsed) == written
    assert parse_url(written) == parsed


@pytest.mark.parametrize(
    "url", ["zk://a?ledgers=", "zk://a?ledgers=etcd:b", "?ledgers=zk://b", "zk://a?ledgers=zk+longhierarchical://b"]
)
def test_ledgers_in_an_unknown_store_are_refused(url):
    with pytest.raises(InvalidMetadataUrl):
        parse_url(url)


@pytest.mark.parametrize("url", ["rocksdb://host/path", "rocksdb:", "rocksdb:a\0b"])
def test_the_error_for_an_invalid_directory_says_how_to_write_one(url):
    with pytest.raises(InvalidMetadataUrl, match="rocksdb:DIR"):
        parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *("", "memory", "host:2181", "http://host", "zk:", "zk://", "zk:///chroot", "zk://a,,b", "zk://a b:1"),
        *("zk://host:0", "zk://host:65536", "zk://host:x", "zk://host:1:2", "zk://host/a//b", "zk://host/../b"),
    ],
)
def test_the_error_for_an_invalid_url_says_how_to_write_one(url):
    with pytest.raises(InvalidMetadataUrl, match="zk://host:port,host:port/chroot"):
        parse_url(url)


@pytest.mark.parametrize("scheme", ["etcd", "oxia"])
def test_other_stores_of_pulsar_are_refused_by_name(scheme):
    with pytest.raises(InvalidMetadataUrl, match=f"metadata in {scheme} is not supported"):
        parse_url(f"{scheme}://host:1")


@pytest.mark.parametrize("url", ["zk://user:secret@host:1/a", "http://user:secret@host"])
def test_credentials_are_refused_and_not_repeated(url):
    with pytest.raises(InvalidMetadataUrl) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)
