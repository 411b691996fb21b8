"""Options of the data source: how they are read, and which are refused."""

import pickle

import pytest

from mledger.metastore.errors import InvalidMetadataUrl
from mledger.snapshot.source.options import OPTIONS, parse_options
from mledger.snapshot.zookeeper_files.errors import InvalidOption

ZK = {"metadata": "zk://127.0.0.1:2181/pulsar"}


FILES = {"metadata": "file:///backup"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "metadata is missing"),
        ({**ZK, "tenent": "t"}, "no option tenent"),
        ({**ZK, "state": "guessed"}, "stored or recovered"),
        ({**ZK, "zxid": "0x1"}, "for ZooKeeper's own files"),
        ({**FILES, "state": "recovered"}, "for a running cluster"),
        ({**FILES, "rate": "100"}, "for a running cluster"),
        ({**FILES, "zxid": "0x1", "time": "5"}, "not both"),
        ({**FILES, "zxid": "later"}, "0x"),
        ({**FILES, "time": "yesterday"}, "2026-01-31"),
        ({**FILES, "chroot": "pulsar"}, "chroot"),
        ({**FILES, "verifyDigests": "maybe"}, "true or false"),
        ({**ZK, "rate": "0"}, "above 0"),
        ({**ZK, "partitions": "none"}, "whole number"),
        ({**ZK, "namespace": "default"}, "tenant/namespace"),
        ({**ZK, "topic": "non-persistent://t/n/x"}, "non-persistent"),
        ({**ZK, "ledgersRoot": "/"}, "below the root, such as /ledgers"),
        ({"metadata": "file://host/path"}, None),
    ],
)
def test_invalid_options_are_refused(options, words):
    if words is None:
        assert parse_options(options).files
        return
    with pytest.raises(InvalidOption, match=words) as raised:
        parse_options(options)
    assert "\n" not in str(raised.value)


def test_an_unknown_store_is_refused():
    with pytest.raises(InvalidMetadataUrl, match="etcd"):
        parse_options({"metadata": "etcd://127.0.0.1"})


def test_option_names_are_read_in_any_case():
    assert parse_options({"METADATA": FILES["metadata"], "VERIFYdigests": "no"}).verify_digests is False


def test_a_password_is_not_shown():
    assert "secret" not in repr(parse_options({**ZK, "password": "secret"}))


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31 12:00", "1769860800000"]
)
def test_times_without_a_zone_are_in_utc(text):
    assert parse_options({**FILES, "time": text}).time_ms == 1769860800000


def test_every_option_is_documented_and_pickles():
    assert all(OPTIONS.values())
    options = parse_options({**ZK, "topic": "t/n/x"})
    assert pickle.loads(pickle.dumps(options)) == options
