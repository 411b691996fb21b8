"""A standalone in a child process."""

import os

import pytest

import mledger


def test_it_serves_is_killed_and_goes_on_at_the_same_address(client_of):
    with mledger.start_standalone_process() as pulsar, client_of(pulsar.service_url) as client:
        consumer = client.subscribe("orders")
        client.publish("orders", b"0", b"1", b"2")
        assert client.receive(consumer, 3) == [b"0", b"1", b"2"]
        pulsar.wait_until_drained("orders", "sub")
        client.publish("orders", b"3")
        addresses, pid = (pulsar.service_url, pulsar.admin_url), pulsar.pid
        pulsar.kill()
        assert not pulsar.running
        pulsar.restart()
        assert (pulsar.service_url, pulsar.admin_url) == addresses
        assert pulsar.running
        assert pulsar.pid != pid
        assert client.receive(consumer, 1) == [b"3"]
    assert not pulsar.running
    with pytest.raises(mledger.StandaloneError, match="was closed and its data removed: start another"):
        pulsar.restart()
    assert not os.path.exists(pulsar.data_dir)


def test_a_named_directory_keeps_its_data(tmp_path, client_of):
    with mledger.start_standalone_process(tmp_path / "data") as pulsar, client_of(pulsar.service_url) as client:
        client.subscribe("orders").close()
        client.publish("orders", b"0")
    pulsar = mledger.start_standalone_process(tmp_path / "data")
    with client_of(pulsar.service_url) as client:
        assert client.receive(client.subscribe("orders"), 1) == [b"0"]
    pulsar.close()
    assert "event=stopped" in pulsar.log.read_text()


def test_the_reason_why_it_does_not_start_is_told(tmp_path):
    pulsar = mledger.start_standalone_process(tmp_path)
    with pytest.raises(mledger.StandaloneError, match=f"process {pulsar.pid} runs a standalone on this directory"):
        mledger.start_standalone_process(tmp_path)
    pulsar.close()
    with pytest.raises(mledger.StandaloneError, match="--bookies 99: a number from 1 to 16"):
        mledger.start_standalone_process(bookies=99)


def test_options_reach_it(tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("clusterName=west\n")
    settings = {"managedLedgerDefaultEnsembleSize": 2, "allowAutoTopicCreation": False}
    with mledger.start_standalone_process(bookies=2, broker_conf=conf, settings=settings) as pulsar:
        assert len([name for name in os.listdir(pulsar.data_dir) if name.startswith("bookie-")]) == 2
