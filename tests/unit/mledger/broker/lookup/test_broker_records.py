"""Brokers' nodes in Pulsar's JSON: ours as Pulsar reads them, and Pulsar's as we read them."""

import json

import pytest

from mledger.broker.lookup.broker_records import (
    BrokerAddress,
    BrokerLoad,
    BrokerReport,
    HostUsage,
    ResourceUsage,
    bundle_owner_urls,
    decode_report,
    encode_bundle_owner,
    encode_report,
    plan_report,
    report_content,
)
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.ledgers.bundles import of_mledger

ADDRESS = BrokerAddress("a:6650", "pulsar://a:6650")
JAVAS = {
    "webServiceUrl": "http://b:8080",
    "pulsarServiceUrl": "pulsar://b:6650",
    "pulsarServiceUrlTls": None,
    "numBundles": 3,
    "bundles": ["public/default/0x00000000_0x40000000"],
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "loadReportType": "LocalBrokerData",
}


def test_a_report_is_read_as_it_was_written():
    bundles = ["public/default/0x00000000_0x40000000", "a/b/0x00000000_0xffffffff"]
    data = encode_report(report_content(ADDRESS, BrokerLoad(bundles, 7), started_ms=1, now_ms=2))
    assert decode_report("a:6650", data) == BrokerReport(ADDRESS, frozenset(bundles))


def test_a_report_has_what_pulsars_load_managers_read():
    load = BrokerLoad(["a/b/0x00000000_0xffffffff"], 7, 2, 3, 1.5, 15.0, 2.5, 25.0)
    said = json.loads(encode_report(report_content(ADDRESS, load, started_ms=1, now_ms=2)))
    assert said["pulsarServiceUrl"] == "pulsar://a:6650"
    assert said["loadReportType"] == "LocalBrokerData"
    assert (said["numBundles"], said["numTopics"], said["lastUpdate"]) == (1, 7, 2)
    assert (said["numProducers"], said["numConsumers"]) == (2, 3)
    rates = [said[name] for name in ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")]
    assert rates == [1.5, 15, 2.5, 25]
    assert said["cpu"] == {"usage": 0.0, "limit": 0.0}
    assert "webServiceUrl" not in said
    assert (said["persistentTopicsEnabled"], said["nonPersistentTopicsEnabled"]) == (True, True)
    without = encode_report(report_content(ADDRESS, BrokerLoad(), started_ms=1, now_ms=2, nonpersistent=False))
    assert json.loads(without)["nonPersistentTopicsEnabled"] is False


@pytest.mark.parametrize(
    "load",
    [
        BrokerLoad(["a", "b", "c"], messages_in=60, messages_out=40, bytes_in=1000),
        BrokerLoad(["a", "b"], messages_in=60, messages_out=51, bytes_in=1000),
        BrokerLoad(["a", "b"], messages_in=60, messages_out=40, bytes_in=889),
        BrokerLoad(["a", "b"], messages_in=60, messages_out=40, bytes_in=1000, host=HostUsage(ResourceUsage(22, 200))),
    ],
    ids=["bundles", "messages", "bytes", "processors"],
)
def test_a_load_that_changed_by_more_than_the_threshold_is_reported(load):
    reported = BrokerLoad(["a", "b"], messages_in=60, messages_out=40, bytes_in=1000)
    assert plan_report(reported, load, 10)


def test_a_load_that_changed_little_is_not_reported():
    reported = BrokerLoad(["a", "b"], messages_in=60, messages_out=40, host=HostUsage(ResourceUsage(1, 200)))
    load = BrokerLoad(["a", "b"], 9, messages_in=50, messages_out=41, host=HostUsage(ResourceUsage(20, 200)))
    assert not plan_report(reported, load, 10)


def test_a_report_says_how_busy_the_machine_is():
    host = HostUsage(ResourceUsage(50, 200), ResourceUsage(90, 100), ResourceUsage(3, 0), ResourceUsage(300, 1000))
    said = report_content(ADDRESS, BrokerLoad(host=host), started_ms=1, now_ms=2)
    assert said["cpu"] == {"usage": 50, "limit": 200}
    assert said["memory"] == {"usage": 90, "limit": 100}
    assert said["directMemory"] == {"usage": 0.0, "limit": 0.0}
    assert (said["bandwidthIn"]["usage"], said["bandwidthOut"]["usage"]) == (3, 300)
    assert said["maxResourceUsage"] == 0.3  # not the memory: Pulsar leaves that out of account


def test_the_report_of_a_java_broker_names_its_address_and_counts_its_bundles():
    report = decode_report("b:8080", json.dumps(JAVAS).encode())
    assert report is not None
    assert report.address == BrokerAddress("b:8080", "pulsar://b:6650", "", "http://b:8080")
    assert report.count == 3


def test_a_report_without_a_url_for_clients_is_none():
    assert decode_report("b", b"{}") is None
    assert decode_report("b", b"\xff") is None
    assert decode_report("b", b"[]") is None


def test_only_brokers_of_ours_are_known_as_such():
    assert of_mledger(encode_report(report_content(ADDRESS, BrokerLoad(), started_ms=0, now_ms=0)))
    assert not of_mledger(json.dumps(JAVAS).encode())


def test_the_owner_of_a_bundle_is_named_as_pulsar_names_it():
    data = encode_bundle_owner(BrokerAddress("a", "pulsar://a:6650", "pulsar+ssl://a:6651", "http://a:8080"))
    assert json.loads(data) == {
        "nativeUrl": "pulsar://a:6650",
        "nativeUrlTls": "pulsar+ssl://a:6651",
        "httpUrl": "http://a:8080",
        "disabled": False,
        "advertisedListeners": {},
    }
    assert bundle_owner_urls(data) == ServiceUrls("pulsar://a:6650", "pulsar+ssl://a:6651")
    assert bundle_owner_urls(b"\xff") == NOWHERE


def test_a_broker_that_serves_by_tls_only_is_found():
    address = BrokerAddress("a:6651", "", "pulsar+ssl://a:6651", "", "https://a:8443")
    report = decode_report("a:6651", encode_report(report_content(address, BrokerLoad(), started_ms=1, now_ms=2)))
    assert report == BrokerReport(address)
    assert bundle_owner_urls(encode_bundle_owner(address)) == ServiceUrls("", "pulsar+ssl://a:6651")
